// Package pgstore runs PostgreSQL transactions that commit only under a
// current fencing token.
package pgstore
