// Package s3clients_test runs S3 clients as their users have them, unmodified,
// through the proxy: the aws command, s3cmd, rclone, and the SDKs of several
// languages.
package s3clients_test

import (
	"os"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// built is a folder for programs that tests build.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fence-s3clients-")
	if err != nil {
		panic(err)
	}
	built = dir
	code := testenv.Run(m)
	os.RemoveAll(dir)
	os.Exit(code)
}
