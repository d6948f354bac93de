package sigv4

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// recorded is a Verifier of the key with which the recordings in testdata were
// made, whose clock stands at the time of one of them.
func recorded(now time.Time) *Verifier {
	return New(Config{
		Secret: func(key string) (string, bool) { return "testsecret", key == "testkey" },
		Now:    func() time.Time { return now },
	})
}

// open returns a recorded request, and when it was made.
func open(t testing.TB, raw []byte) (*http.Request, time.Time) {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
	if err != nil {
		t.Fatal(err)
	}
	stamp := r.Header.Get("X-Amz-Date") + r.URL.Query().Get("X-Amz-Date")
	now, err := time.Parse(stampForm, stamp)
	if err != nil {
		now = time.Now()
	}
	return r, now.Add(2 * time.Second)
}

// TestRecordings verifies requests that real clients sent to a listener, byte by
// byte as they came: testdata/clients/README says which, and how.
func TestRecordings(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/clients/*.http")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d recordings, error %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".http")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, now := open(t, raw)
			body, err := payload(recorded(now), r)
			if got, want := code(err), refusedRecording(name); got != want {
				t.Fatalf("error %v, want code %q", err, want)
			}
			if want := recordedBody(name); err == nil && !want.Match(body) {
				t.Fatalf("%q, want %v", body, want)
			}
			if len(body) > 0 {
				tampered(t, raw)
			}
		})
	}
}

// tampered changes what a recorded request says of its payload, and the first
// byte of its body: nothing may be read to its end.
func tampered(t *testing.T, raw []byte) {
	t.Helper()
	at := bytes.Index(raw, []byte("\r\n\r\n")) + 4
	changed := bytes.Clone(raw)
	changed[at] ^= 1
	r, now := open(t, changed)
	body, err := payload(recorded(now), r)
	unsigned := bytes.Contains(raw, []byte(unsignedPayload)) || r.URL.Query().Has("X-Amz-Signature")
	checked := bytes.Contains(bytes.ToLower(raw[:at]), []byte("\r\nx-amz-checksum-crc")) || r.Header.Get("Content-Md5") != ""
	if err == nil && (!unsigned || checked) {
		t.Errorf("%q is taken for what was sent", body)
	}
}

// refusedRecording is the code with which a recording is refused, or empty.
func refusedRecording(name string) string {
	switch {
	// aws-cli 1 presigns with Signature Version 2 unless it is told otherwise.
	case strings.Contains(name, "v2-"), strings.HasSuffix(name, "signurl"), name == "awscli1-presign":
		return "InvalidRequest"
	case strings.HasSuffix(name, "anonymous"):
		return "AccessDenied"
	case strings.HasSuffix(name, "put-sum-given"): // a wrong one was given
		return "BadDigest"
	}
	return ""
}

// recordedBody is what a client was told to send, or an XML of its own.
func recordedBody(name string) *regexp.Regexp {
	for _, body := range []struct{ name, text string }{
		{`put-empty`, ``},
		{`presigned-put`, `presigned body`},
		{`^boto3-1.43-put-stream`, `(stream body){100}`},
		{`^js-.*put-stream`, `(stream ){50}(body){20}`},
		{`^boto3.*put-file`, `(file body){100}`},
		{`^boto3.*put-gzip`, `body`},
		{`^(boto3|js).*put-(crc|sha)`, `checked`},
		{`part`, `part`},
		{`^(awscli.-(cp|put)|s3cmd-put|rclone-copyto-2)`, `file for the shell clients\n`},
		{`deletes|removes`, `(?s).*<Delete.*<Key>a=b:c d\+é~%2F&amp;(&#39;|&apos;|')\(\).*</Delete>`},
		{`complete`, `<CompleteMultipartUpload.*`},
		{`tags`, `<Tagging.*`},
		{`(minio|sdkgo).*-put`, `hello world`},
		{`-put(-tls)?$`, `hello world`},
	} {
		if regexp.MustCompile(body.name).MatchString(name) {
			return regexp.MustCompile(`^` + body.text + `$`)
		}
	}
	return regexp.MustCompile(`^$`)
}
