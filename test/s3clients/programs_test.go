package s3clients_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func boto3(t *testing.T) []string {
	t.Helper()
	testenv.Program(t, "/usr/lib/python3/dist-packages/boto3")
	return []string{testenv.Program(t, "/usr/bin/python3"), script(t, "boto3_client.py")}
}

func javaScript(t *testing.T) []string {
	t.Helper()
	modules := testenv.Program(t, "npm/node_modules")
	testenv.Program(t, "npm/node_modules/@aws-sdk/lib-storage")
	return []string{testenv.Program(t, "node"), script(t, "js_client.mjs"), modules}
}

// sdks builds the programs of the module sdks, once, in a folder that TestMain
// has made.
var sdks = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-C", "sdks", "-o", built, "./...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs in sdks: %w\n%s", err, out)
	}
	return nil
})

func sdk(program string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		if err := sdks(); err != nil {
			t.Fatal(err)
		}
		return []string{filepath.Join(built, program)}
	}
}

// shell is a script that runs a program.
func shell(name, program string, args ...string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		testenv.Program(t, program)
		testenv.Program(t, "curl")
		return append([]string{"/bin/bash", script(t, name)}, args...)
	}
}

func programs() []client {
	return []client{
		{name: "boto3", argv: boto3, late: true, authority: "AWS_CA_BUNDLE"},
		{name: "AWS SDK for JavaScript v3", argv: javaScript, late: true, authority: "NODE_EXTRA_CA_CERTS"},
		{name: "minio-go", argv: sdk("minio"), late: true, authority: "SSL_CERT_FILE"},
		// Without TLS the server takes each of its checksums for a wrong one.
		{name: "minio-go, trailers", variant: true, direct: "https", argv: sdk("minio"), env: []string{"VARIANT=trailers"}, authority: "SSL_CERT_FILE"},
		{name: "minio-go, virtual host", variant: true, argv: sdk("minio"), through: []string{"VARIANT=virtual"}},
		{name: "aws-sdk-go-v2", argv: sdk("awssdk"), late: true, authority: "SSL_CERT_FILE"},
		{name: "aws cli", slow: true, argv: shell("aws.sh", "/usr/bin/aws")},
		{name: "s3cmd", argv: shell("s3cmd.sh", "/usr/bin/s3cmd")},
		{name: "rclone, Other", argv: shell("rclone.sh", "/usr/bin/rclone", "Other")},
		// As for AWS, but not in virtual-host style.
		{name: "rclone, Minio", variant: true, argv: shell("rclone.sh", "/usr/bin/rclone", "Minio")},
	}
}
