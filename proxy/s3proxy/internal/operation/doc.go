// Package operation tells what a request to S3 asks for, and which requests the
// proxy knows.
package operation
