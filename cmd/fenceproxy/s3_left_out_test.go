package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// What cannot be listed is left out for its own reason: framing does not help
// an object that is damaged or has no ETag.
func TestS3LsLeftOut(t *testing.T) {
	t.Parallel()
	b := newPail(t).under(7)
	b.put("damaged", strings.Repeat("x", 100))
	b.put("fine", "value")
	raw := []byte(b.stored("damaged"))
	raw[layout.HeaderSize-1] ^= 1
	_, err := b.server.Client(t).PutObject(t.Context(), b.bucket, "damaged", bytes.NewReader(raw), int64(len(raw)), minio.PutObjectOptions{})
	must(t, err)
	o := b.run("ls", "--legacy").want(t, exitDenied, `objects left out since they cannot be read: 1; the first: list "damaged": `, layout.ErrDamaged.Error())
	if strings.Contains(o.err, "--legacy") || strings.Contains(o.err, "not framed") || strings.Contains(o.out, "damaged") || !strings.Contains(o.out, "fine") {
		t.Errorf("stdout: %s, stderr: %s", o.out, o.err)
	}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		const entry = `<Contents><Key>%s</Key><Size>%d</Size>%s<LastModified>2026-01-02T03:04:05Z</LastModified></Contents>`
		fmt.Fprintf(w, `<ListBucketResult>`+entry+entry+entry+`</ListBucketResult>`,
			"bare", 5, "<ETag>e</ETag>", "direct1", 100, "", "direct2", 100, "")
	}))
	t.Cleanup(server.Close)
	none := b.with("")
	none.env["AWS_ENDPOINT_URL"] = server.URL
	o = none.run("ls", "--no-token").want(t, exitDenied, `objects left out since they cannot be read: 2; the first: list "direct1": `,
		"the server gives the object no ETag", "since they are not framed: 1; 'fenceproxy s3 frame'")
	if o.out != "" {
		t.Errorf("stdout: %s", o.out)
	}
}
