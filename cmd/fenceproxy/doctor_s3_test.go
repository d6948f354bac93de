package main

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

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3ref"
)

// doctorS3 runs the command with keys in the environment.
func doctorS3(t *testing.T, key, secret string, args ...string) outcome {
	t.Helper()
	env := map[string]string{"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}
	return invocation{args: append([]string{"doctor", "s3"}, args...), env: env}.run(t.Context())
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
			o := doctorS3(t, "k", "s3cret", strings.Fields(c.args)...).want(t, exitUsage, c.says, "; see 'fenceproxy doctor s3 --help'")
			if o.out != "" || strings.Contains(o.err, "s3cret") {
				t.Errorf("stdout: %s, stderr: %s", o.out, o.err)
			}
		})
	}
	run(t, "doctor", "s3", "--bucket", "b").want(t, exitUsage, "no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	i := invocation{args: []string{"doctor", "s3", "--bucket", "b"}, env: map[string]string{"AWS_ENDPOINT_URL": "h:9000"}}
	i.run(t.Context()).want(t, exitUsage, "AWS_ENDPOINT_URL is not the URL of a store")
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
	o := doctorS3(t, s.AccessKey, s.SecretKey, "--endpoint", endpoint, "--bucket", bucket, "--rounds", "1").want(t, exitOK)
	for _, want := range []string{"OPERATION", "412 PreconditionFailed", "bucket \"" + bucket + "\" can hold fenced objects"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("stdout has no %q:\n%s", want, o.out)
		}
	}
	// With all from the environment, but not if that is for the proxy.
	i := invocation{args: []string{"doctor", "s3", "--bucket", bucket, "--json"}, env: map[string]string{
		"AWS_ACCESS_KEY_ID": s.AccessKey, "AWS_SECRET_ACCESS_KEY": s.SecretKey, "AWS_REGION": s.Region, "AWS_ENDPOINT_URL": endpoint,
		"AWS_SESSION_TOKEN": "ft1:x:42:h:i:orders",
	}}
	i.run(t.Context()).want(t, exitUsage, "the environment is that of exec --s3, for clients of the proxy at "+endpoint)
	delete(i.env, "AWS_SESSION_TOKEN")
	var got probeDocument
	decode(t, i.run(t.Context()).want(t, exitOK).out, &got)
	if got.Endpoint != endpoint || got.Bucket != bucket || !got.Framed || len(got.Checks) < 30 || got.Left == nil || len(got.Left) > 0 {
		t.Errorf("JSON: %+v", got)
	}
	for object := range s.Client(t).ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Recursive: true}) {
		t.Errorf("left behind: %q", object.Key)
	}
	doctorS3(t, s.AccessKey, s.SecretKey, "--endpoint", endpoint, "--bucket", "no-such").want(t, exitNotFound, `there is no bucket "no-such" at `+endpoint)
	o = doctorS3(t, s.AccessKey, "s3cret", "--endpoint", endpoint, "--bucket", bucket).want(t, exitDenied, "check the keys, and what their user may do")
	if strings.Contains(o.err, "s3cret") {
		t.Errorf("stderr has the secret: %s", o.err)
	}
	doctorS3(t, "k", "s", "--endpoint", "http://127.0.0.1:1", "--bucket", "bucket").want(t, exitUnreachable,
		"the store at http://127.0.0.1:1: connection refused; check the endpoint")
}

func TestDoctorS3Unfit(t *testing.T) {
	t.Parallel()
	server := s3ref.New(t, s3ref.Flaws{Ignores: []string{"PutObject If-Match"}})
	args := []string{"--endpoint", "http://" + server.Endpoint(), "--bucket", "bucket", "--rounds", "1"}
	o := doctorS3(t, "k", "s", args...).want(t, exitSchema, `bucket "bucket" cannot hold fenced objects, for want of PutObject/swap-earlier`)
	if !strings.Contains(o.out, "ignored: done") || !strings.Contains(o.out, "cannot hold fenced objects (") {
		t.Errorf("stdout: %s", o.out)
	}
	var got probeDocument
	o = doctorS3(t, "k", "s", append(args, "--json")...).want(t, exitSchema, "cannot hold fenced objects")
	if decode(t, o.out, &got); got.Framed {
		t.Errorf("JSON: %s", o.out)
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
	doctorS3(t, "k", "s", append(args, "--cacert", path)...).want(t, exitOK)
	doctorS3(t, "k", "s", args...).want(t, exitUnreachable, "certificate signed by unknown authority")
}
