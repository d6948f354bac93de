package doctor

import (
	"encoding/pem"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3ref"
)

// doctorS3 runs the command with keys in the environment.
func doctorS3(t *testing.T, key, secret string, args ...string) clitest.Outcome {
	t.Helper()
	env := map[string]string{"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}
	return clitest.Invocation{Args: append([]string{"doctor", "s3"}, args...), Env: env}.Run(t.Context())
}

func TestDoctorS3BadUsage(t *testing.T) {
	t.Parallel()
	const bucket = "--bucket b "
	for _, c := range []struct{ args, says string }{
		{"", "no bucket: give --bucket NAME"},
		{bucket + "--endpoint h:9000", "--endpoint is not the URL of a store: it must read https://host:port"},
		{bucket + "--endpoint ftp://h", "--endpoint is not the URL of a store"},
		{bucket + "--endpoint http://u:s3cret@h", "--endpoint is not the URL of a store"},
		{bucket + "--endpoint http://h/path", "--endpoint is not the URL of a store"},
		{bucket + "--endpoint https://h --cacert /no/such/file", "--cacert: open /no/such/file"},
		{bucket + "--endpoint https://h --cacert /dev/null", "--cacert: there is no certificate in /dev/null"},
		{bucket + "--rounds 0", "--rounds is below 1"},
		{bucket + "now", `takes no argument, got "now"`},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			o := doctorS3(t, "k", "s3cret", strings.Fields(c.args)...).Want(t, cli.ExitUsage, c.says, "; see 'fenceproxy doctor s3 --help'")
			if o.Out != "" || strings.Contains(o.Err, "s3cret") {
				t.Errorf("stdout: %s, stderr: %s", o.Out, o.Err)
			}
		})
	}
	clitest.Run(t, "doctor", "s3", "--bucket", "b").Want(t, cli.ExitUsage, "no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	i := clitest.Invocation{Args: []string{"doctor", "s3", "--bucket", "b"}, Env: map[string]string{"AWS_ENDPOINT_URL": "h:9000"}}
	i.Run(t.Context()).Want(t, cli.ExitUsage, "AWS_ENDPOINT_URL is not the URL of a store")
}

// probeDocument is what --json promises.
type probeDocument struct {
	Endpoint     string `json:"endpoint"`
	Bucket       string `json:"bucket"`
	Framed       bool   `json:"framed"`
	Milliseconds int64  `json:"milliseconds"`
	Checks       []struct {
		Name      string `json:"name"`
		Operation string `json:"operation"`
		Asked     string `json:"asked"`
		Answer    string `json:"answer"`
		Result    string `json:"result"`
		Framed    bool   `json:"framed"`
	} `json:"checks"`
	Left []string `json:"left"`
}

func TestDoctorS3(t *testing.T) {
	t.Parallel()
	s := testenv.S3(t)
	bucket, endpoint := s.Bucket(t), "http://"+s.Endpoint()
	o := doctorS3(t, s.AccessKey, s.SecretKey, "--endpoint", endpoint, "--bucket", bucket, "--rounds", "1").Want(t, cli.ExitOK)
	for _, want := range []string{"OPERATION", "412 PreconditionFailed", "bucket \"" + bucket + "\" can hold fenced objects"} {
		if !strings.Contains(o.Out, want) {
			t.Errorf("stdout has no %q:\n%s", want, o.Out)
		}
	}
	// With all from the environment, but not if that is for the proxy.
	i := clitest.Invocation{Args: []string{"doctor", "s3", "--bucket", bucket, "--json"}, Env: map[string]string{
		"AWS_ACCESS_KEY_ID": s.AccessKey, "AWS_SECRET_ACCESS_KEY": s.SecretKey, "AWS_REGION": s.Region, "AWS_ENDPOINT_URL": endpoint,
		"AWS_SESSION_TOKEN": "ft1:x:42:h:i:orders",
	}}
	i.Run(t.Context()).Want(t, cli.ExitUsage, "the environment is that of exec --s3, for clients of the proxy at "+endpoint)
	delete(i.Env, "AWS_SESSION_TOKEN")
	var got probeDocument
	clitest.Decode(t, i.Run(t.Context()).Want(t, cli.ExitOK).Out, &got)
	if got.Endpoint != endpoint || got.Bucket != bucket || !got.Framed || len(got.Checks) < 30 || got.Left == nil || len(got.Left) > 0 {
		t.Errorf("JSON: %+v", got)
	}
	for object := range s.Client(t).ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Recursive: true}) {
		t.Errorf("left behind: %q", object.Key)
	}
	doctorS3(t, s.AccessKey, s.SecretKey, "--endpoint", endpoint, "--bucket", "no-such").Want(t, cli.ExitNotFound, `there is no bucket "no-such" at `+endpoint)
	o = doctorS3(t, s.AccessKey, "s3cret", "--endpoint", endpoint, "--bucket", bucket).Want(t, cli.ExitDenied, "check the keys, and what their user may do")
	if strings.Contains(o.Err, "s3cret") {
		t.Errorf("stderr has the secret: %s", o.Err)
	}
	// Of a key that it does not know versitygw says 404, as of an object.
	o = doctorS3(t, "unknown", s.SecretKey, "--endpoint", endpoint, "--bucket", bucket).Want(t, cli.ExitDenied, "check the keys, and what their user may do")
	if o.Out != "" {
		t.Errorf("stdout: %s", o.Out)
	}
	doctorS3(t, "k", "s", "--endpoint", "http://127.0.0.1:1", "--bucket", "bucket").Want(t, cli.ExitUnreachable,
		"the store at http://127.0.0.1:1: connection refused; check the endpoint")
}

func TestDoctorS3Unfit(t *testing.T) {
	t.Parallel()
	server := s3ref.New(t, s3ref.Flaws{Ignores: []string{"PutObject If-Match"}})
	args := []string{"--endpoint", "http://" + server.Endpoint(), "--bucket", "bucket", "--rounds", "1"}
	o := doctorS3(t, "k", "s", args...).Want(t, cli.ExitSchema, `bucket "bucket" cannot hold fenced objects, for want of PutObject/swap-earlier`)
	if !strings.Contains(o.Out, "ignored: done") || !strings.Contains(o.Out, "cannot hold fenced objects (") {
		t.Errorf("stdout: %s", o.Out)
	}
	var got probeDocument
	o = doctorS3(t, "k", "s", append(args, "--json")...).Want(t, cli.ExitSchema, "cannot hold fenced objects")
	if clitest.Decode(t, o.Out, &got); got.Framed {
		t.Errorf("JSON: %s", o.Out)
	}
}

func TestDoctorS3TLS(t *testing.T) {
	t.Parallel()
	server := s3ref.New(t, s3ref.Flaws{})
	front := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.Endpoint()}))
	t.Cleanup(front.Close)
	path := filepath.Join(t.TempDir(), "ca.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	if err := os.WriteFile(path, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--endpoint", front.URL, "--bucket", "bucket", "--rounds", "1"}
	doctorS3(t, "k", "s", append(args, "--cacert", path)...).Want(t, cli.ExitOK)
	doctorS3(t, "k", "s", args...).Want(t, cli.ExitUnreachable, "certificate signed by unknown authority")
}
