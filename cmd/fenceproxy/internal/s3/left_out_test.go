package s3

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// What cannot be listed is left out for its own reason: framing does not help
// an object that is damaged or has no ETag.
func TestS3LsLeftOut(t *testing.T) {
	t.Parallel()
	b := clitest.NewPail(t).Under(7)
	b.Put("damaged", strings.Repeat("x", 100))
	b.Put("fine", "value")
	raw := []byte(b.Stored("damaged"))
	raw[layout.HeaderSize-1] ^= 1
	_, err := b.Server.Client(t).PutObject(t.Context(), b.Bucket, "damaged", bytes.NewReader(raw), int64(len(raw)), minio.PutObjectOptions{})
	clitest.Must(t, err)
	o := b.Run("ls", "--legacy").Want(t, cli.ExitDenied, `objects left out since they cannot be read: 1; the first: list "damaged": `, layout.ErrDamaged.Error())
	if strings.Contains(o.Err, "--legacy") || strings.Contains(o.Err, "not framed") || strings.Contains(o.Out, "damaged") || !strings.Contains(o.Out, "fine") {
		t.Errorf("stdout: %s, stderr: %s", o.Out, o.Err)
	}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		const entry = `<Contents><Key>%s</Key><Size>%d</Size>%s<LastModified>2026-01-02T03:04:05Z</LastModified></Contents>`
		fmt.Fprintf(w, `<ListBucketResult>`+entry+entry+entry+`</ListBucketResult>`,
			"bare", 5, "<ETag>e</ETag>", "direct1", 100, "", "direct2", 100, "")
	}))
	t.Cleanup(server.Close)
	none := b.With("")
	none.Env["AWS_ENDPOINT_URL"] = server.URL
	o = none.Run("ls", "--no-token").Want(t, cli.ExitDenied, `objects left out since they cannot be read: 2; the first: list "direct1": `,
		"the server gives the object no ETag", "since they are not framed: 1; 'fenceproxy s3 frame'")
	if o.Out != "" {
		t.Errorf("stdout: %s", o.Out)
	}
}
