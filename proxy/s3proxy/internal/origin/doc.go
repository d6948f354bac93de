// Package origin reads what a copy is made of.
package origin
