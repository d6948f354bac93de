package s3proxy

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
)

// covering is a proxy in front of a bucket of which the next configuration fences orders/.
type covering struct {
	*env
	*proxy

	link *testenv.S3Link
	next Config
}

// newCovering starts one whose reload waits for so long. Nothing of the bucket is fenced
// yet, or only the keys below other/.
func newCovering(t *testing.T, wait time.Duration, touched bool) *covering {
	t.Helper()
	c := &covering{env: newEnv(t)}
	c.link = testenv.NewS3Link(t, c.store.Endpoint())
	config := c.config()
	config.Upstream.Endpoint = "http://" + c.link.Endpoint()
	config.Untokened, config.Resources = Allow, []Resource{{Prefix: "elsewhere/", Resource: "others"}}
	if touched {
		config.Resources[0].Prefix = c.bucket + "/other/"
	}
	c.proxy = start(t, config)
	c.coverTime = wait
	c.next = config
	c.next.Resources = append(c.next.Resources, Resource{Prefix: c.bucket + "/orders/", Resource: "orders"})
	return c
}

// writing is a PUT of a key without a token that lacks its last byte, which the store has
// begun to get.
func (c *covering) writing(t *testing.T, key string) *raw {
	t.Helper()
	before := len(c.link.Requests())
	conn := c.dial(t)
	conn.head(c.proxy, http.MethodPut, "/"+c.bucket+"/"+key, 2<<20, nil)
	if _, err := conn.Write(bytes.Repeat([]byte("x"), 2<<20-1)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store gets it", func() bool {
		return slices.ContainsFunc(c.link.Requests()[before:], func(r s3link.Request) bool { return r.Op == s3link.PutObject && r.Key == key })
	})
	return conn
}

// deletes is the answer to a DeleteObjects.
func (c *covering) deletes(t *testing.T, keys ...string) string {
	t.Helper()
	text := "<Delete><Object><Key>" + strings.Join(keys, "</Key></Object><Object><Key>") + "</Key></Object></Delete>"
	sum := md5.Sum([]byte(text))
	_, body := c.do(t, http.MethodPost, "/"+c.bucket+"?delete", text, map[string]string{"Content-Md5": base64.StdEncoding.EncodeToString(sum[:])})
	return body
}

func (c *covering) reload(t *testing.T) {
	t.Helper()
	if err := c.Reload(c.next); err != nil {
		t.Fatal(err)
	}
}

// A write of a key that no resource covered, which is under way when a reload covers it
// and is not over in time, does not overwrite what a holder has written there since (I1);
// whether it is the last reload or another one behind it that covers the key.
func TestReloadCutsWhatTakesLonger(t *testing.T) {
	t.Parallel()
	for _, between := range []bool{false, true} {
		c := newCovering(t, time.Millisecond, true)
		late := c.writing(t, "orders/1")
		if between {
			config := c.next
			config.Resources = config.Resources[:1]
			if err := c.Reload(config); err != nil {
				t.Fatal(err)
			}
		}
		c.reload(t)
		holder := c.app(t, token(34))
		put(t, holder, c.bucket, "orders/1", "acknowledged")
		_, _ = io.WriteString(late, "x")
		if status, code := late.answer(); status != http.StatusServiceUnavailable || code != "SlowDown" {
			t.Errorf("the write that was under way: %d %s", status, code)
		}
		expectValue(t, holder, c.bucket, "orders/1", "acknowledged")
		if log := c.log.String(); !strings.Contains(log, "waited for too long") || strings.Contains(log, "may still carry out") {
			t.Error(log)
		}
	}
}

// The old configuration serves while a reload waits, but that nothing is begun any more
// where keys are to be fenced; what is under way there ends as if nothing had been.
func TestReloadWaitsForWhatIsBeingWritten(t *testing.T) {
	t.Parallel()
	c := newCovering(t, time.Minute, true)
	one, other := c.writing(t, "orders/1"), c.writing(t, "loose/1")
	reloaded := make(chan error, 1)
	go func() { reloaded <- c.Reload(c.next) }()
	eventually(t, "the reload waits", func() bool { return strings.Contains(c.log.String(), "reload waits for writes") })
	app := c.app(t)
	_, err := tryPut(t, app, c.bucket, "orders/2", "v")
	refused(t, "another write there", err, http.StatusServiceUnavailable, "SlowDown")
	if body := c.deletes(t, "orders/2", "loose/2"); !strings.Contains(body, "<Key>loose/2</Key></Deleted>") || !strings.Contains(body, "<Code>SlowDown</Code>") {
		t.Errorf("deletes: %s", body)
	}
	put(t, app, c.bucket, "loose/2", "v")
	if _, err := io.WriteString(one, "x"); err != nil {
		t.Fatal(err)
	}
	if status, code := one.answer(); status != http.StatusOK {
		t.Errorf("the write that was waited for: %d %s", status, code)
	}
	if err := <-reloaded; err != nil {
		t.Fatal(err)
	}
	_, err = tryPut(t, app, c.bucket, "orders/2", "v")
	refused(t, "afterwards", err, http.StatusForbidden, "FenceTokenMissing")
	if _, err := io.WriteString(other, "x"); err != nil {
		t.Fatal(err)
	}
	if status, code := other.answer(); status != http.StatusOK {
		t.Errorf("the write that was none of its business: %d %s", status, code)
	}
}

// What cannot be told from the request's key is waited for too, and what the store had
// whole when it was cut is named: nobody knows what comes of it.
func TestReloadWarnsOfWhatItCuts(t *testing.T) {
	t.Parallel()
	for _, touched := range []bool{false, true} {
		c := newCovering(t, time.Millisecond, touched)
		held := c.link.Hold(s3link.Op(s3link.DeleteObjects, s3link.DeleteObject), 1)
		ended := make(chan string, 1)
		go func() { ended <- c.deletes(t, "orders/1") }()
		<-held.Taken()
		c.reload(t)
		if body := <-ended; !strings.Contains(body, "<Code>InternalError</Code>") {
			t.Errorf("touched %v: deletes: %s", touched, body)
		}
		if log := c.log.String(); !strings.Contains(log, "may still carry out") {
			t.Error(log)
		}
	}
}

// Of an upload that was begun before its key was fenced nothing comes any more: its
// parts and its end are refused. It can be listed, and ended.
func TestReloadEndsUploads(t *testing.T) {
	t.Parallel()
	c := newCovering(t, time.Minute, true)
	app := c.app(t)
	id, err := app.NewMultipartUpload(t.Context(), c.bucket, "orders/1", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	part := func(app minio.Core) (minio.ObjectPart, error) {
		return app.PutObjectPart(t.Context(), c.bucket, "orders/1", id, 1, strings.NewReader("v"), 1, minio.PutObjectPartOptions{})
	}
	one, err := part(app)
	if err != nil {
		t.Fatal(err)
	}
	c.reload(t)
	for name, app := range map[string]minio.Core{"": app, "holder": c.app(t, token(34))} {
		status, code := http.StatusForbidden, "FenceTokenMissing"
		if name != "" {
			status, code = http.StatusNotFound, "NoSuchUpload"
		}
		_, err = part(app)
		refused(t, "part of "+name, err, status, code)
		_, err = app.CompleteMultipartUpload(t.Context(), c.bucket, "orders/1", id, []minio.CompletePart{{PartNumber: 1, ETag: one.ETag}}, minio.PutObjectOptions{})
		refused(t, "end by "+name, err, status, code)
	}
	holder := c.app(t, token(34))
	put(t, holder, c.bucket, "orders/1", "v of the holder")
	l, err := holder.ListMultipartUploads(t.Context(), c.bucket, "orders/", "", "", "", 10)
	if err != nil || len(l.Uploads) != 1 {
		t.Fatal(l, err)
	}
	_, err = holder.CompleteMultipartUpload(t.Context(), c.bucket, "orders/1", l.Uploads[0].UploadID, []minio.CompletePart{{PartNumber: 1, ETag: one.ETag}}, minio.PutObjectOptions{})
	if err == nil {
		t.Error("an id from a list completes it")
	}
	expectValue(t, holder, c.bucket, "orders/1", "v of the holder")
	if err := holder.AbortMultipartUpload(t.Context(), c.bucket, "orders/1", l.Uploads[0].UploadID); err != nil {
		t.Error(err)
	}
}
