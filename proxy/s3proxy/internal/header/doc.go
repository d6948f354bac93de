// Package header translates between the headers of S3 and what package s3store
// takes and gives.
package header
