// Package gateway answers the requests of S3 clients out of a bucket that is
// fenced.
package gateway
