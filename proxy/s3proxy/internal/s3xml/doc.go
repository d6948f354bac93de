// Package s3xml speaks the XML of S3's requests and answers.
//
// What clients send is read in one pass, without keeping it: bounded in size,
// depth and number of elements, in any namespace, and with no entities but
// XML's own five; a document type is malformed. Keys in it that hold a control
// character other than tab, line feed and carriage return are malformed too,
// for XML 1.0 has no way to write them.
//
// What clients get has S3's elements in S3's order. Such control characters are
// written as references (&#x1;), as S3 does although XML 1.0 forbids it; a
// client that wants something it can parse asks for EncodingURL.
package s3xml
