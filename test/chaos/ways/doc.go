// Package ways is every way in which a holder reads and writes a register.
//
// A register is a number that counts its writes, with the ID of the last one:
// in Postgres a table of one row and a table that remembers every write, both
// written in one transaction; in S3 an object, which is written by PUTs, uploads in
// parts and copies, and deleted and made anew. A Way is the path to it: a store of
// this project, a proxy with some client in front of it, a table that protects
// itself; or, for the control group, one of the ways in which people think that
// they are safe.
//
// To add one, implement Way and Tenure and put a line into the table in open.go.
package ways
