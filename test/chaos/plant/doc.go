// Package plant makes programs and databases whose fence has a hole, to see
// whether a chaos run finds it.
//
// A Hole is one small change of a source file, which go build's -overlay compiles in
// place of the file, so that nothing in the repository changes; or SQL that is
// run in the database after the migrations. A change whose text is not found
// where it should be fails the test: the code has moved, and the hole with it.
package plant
