package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// What README.md shows of S3 does what it says, on other ports: the shell, and
// behind it the program, with the token that is current and with one that is not.
func TestReadmeS3Proxy(t *testing.T) {
	t.Parallel()
	shell, python := readmeBlockWith(t, "sh", "--s3-listen"), readmeBlockWith(t, "python", "boto3")
	testenv.Program(t, "aws", "/usr/bin/aws")
	testenv.Program(t, "/usr/lib/python3/dist-packages/boto3")
	interpreter := testenv.Program(t, "/usr/bin/python3")
	server := testenv.S3(t)
	bucket := server.Bucket(t)
	free, err := localserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := buildFenceproxy(t)
	on := strings.NewReplacer("127.0.0.1:9000", server.Endpoint(), "9100", strconv.Itoa(free),
		"--s3-bucket app", "--s3-bucket "+bucket, "s3://app", "s3://"+bucket, `Bucket="app"`, `Bucket="`+bucket+`"`)
	for name, content := range map[string]string{"today.csv": "orders,34\n", "nightly.py": on.Replace(python)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := on.Replace(awaiting(shell, "9100")) + `
for number in 34 33; do AWS_SESSION_TOKEN=ft1:x:$number:9f8c2ab1:k3v9:reports "$PYTHON" nightly.py; done
`
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "PYTHON="+interpreter, "AWS_REGION="+server.Region,
		"AWS_ACCESS_KEY_ID="+server.AccessKey, "AWS_SECRET_ACCESS_KEY="+server.SecretKey, "AWS_SESSION_TOKEN=",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null")
	out, _ := cmd.CombinedOutput() // the last line is to fail
	said := string(out)
	for _, want := range []string{"upload: ./today.csv", "FenceTokenStale", "orders,34\n", "orders,42\n", "the lock went to somebody else, and nothing was written\n"} {
		_, after, ok := strings.Cut(said, want)
		if !ok {
			t.Fatalf("it does not say %q at its place:\n%s", want, out)
		}
		said = after
	}
}
