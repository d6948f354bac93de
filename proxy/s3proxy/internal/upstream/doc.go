// Package upstream is the store behind the proxy.
package upstream
