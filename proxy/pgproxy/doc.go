// Package pgproxy is the proxy that fences any client of Postgres.
package pgproxy
