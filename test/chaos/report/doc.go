// Package report shows a person what a chaos run did and what came of it.
package report
