// Package sqltext cuts a SQL text into tokens and statements where PostgreSQL
// would.
//
// It follows the rules of PostgreSQL's scanner (src/backend/parser/scan.l) for
// what is text, what is a comment and where a statement ends, and no rule of
// the grammar beyond the three that move the end of a statement: parentheses,
// the BEGIN ATOMIC … END body of a routine, and nothing else. A text that
// PostgreSQL cannot parse may be cut anywhere: it runs none of such a text.
//
// What is not covered: a client_encoding whose second bytes can be ASCII
// (SJIS, BIG5, GBK, GB18030, UHC, JOHAB). Texts are taken as UTF-8 or any
// other encoding in which a byte below 0x80 is always that ASCII character.
package sqltext
