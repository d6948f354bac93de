package ways

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// bareWay is the control group in S3: objects without a frame. Their content is
// one of two, as that of a flag, and what the checks need is in the metadata, of
// which ETags know nothing.
type bareWay struct {
	client *minio.Client
	bucket string
	match  bool // writes name the ETag that was read
	close  func()
}

func openS3Bare(match bool) func(Access, *rand.Rand) (Way, error) {
	return func(a Access, _ *rand.Rand) (Way, error) {
		client, end, err := a.S3.Client()
		if err != nil {
			return nil, err
		}
		return &bareWay{client, a.S3.Bucket, match, end}, nil
	}
}

func (w *bareWay) Close() { w.close() }

// Enter claims nothing: there is nothing that could remember a claim.
func (w *bareWay) Enter(_ context.Context, token guard.Token, r Register) (Tenure, error) {
	return &bareTenure{way: w, token: token, key: r.Key}, nil
}

type bareTenure struct {
	way   *bareWay
	token guard.Token
	key   string
	etag  string
}

func (t *bareTenure) Leave() {}

func (t *bareTenure) Read(ctx context.Context) (history.State, error) {
	e, etag, err := StatBare(ctx, t.way.client, t.way.bucket, t.key)
	t.etag = etag
	return e.State, err
}

// names of the metadata.
const (
	metaVersion = "Version"
	metaID      = "Id"
	metaNumber  = "Number"
	metaPrev    = "Prev"
)

// StatBare reads what the metadata of an object without a frame say.
func StatBare(ctx context.Context, client *minio.Client, bucket, key string) (e history.Entry, etag string, err error) {
	info, err := client.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotFound {
		return e, "", nil
	}
	if err != nil {
		return e, "", err
	}
	e.ID, e.Prev = info.UserMetadata[metaID], info.UserMetadata[metaPrev]
	var errs [2]error
	e.Version, errs[0] = strconv.ParseInt(info.UserMetadata[metaVersion], 10, 64)
	e.Number, errs[1] = strconv.ParseInt(info.UserMetadata[metaNumber], 10, 64)
	return e, info.ETag, errors.Join(errs[:]...)
}

func (t *bareTenure) Write(ctx context.Context, e history.Entry, pause func()) (history.State, error) {
	var o minio.PutObjectOptions
	switch {
	case t.way.match && t.etag != "":
		o.SetMatchETag(t.etag)
	case t.way.match:
		o.SetMatchETagExcept("*") // If-None-Match: *
	}
	o.UserMetadata = map[string]string{metaVersion: strconv.FormatInt(e.Version, 10), metaID: e.ID, metaNumber: strconv.FormatInt(e.Number, 10), metaPrev: e.Prev}
	content := []string{"off", "on"}[e.Version%2]
	pause()
	info, err := t.way.client.PutObject(ctx, t.way.bucket, t.key, strings.NewReader(content), int64(len(content)), o)
	t.etag = info.ETag
	if status := minio.ToErrorResponse(err).StatusCode; err != nil && status >= 400 && status < 500 {
		return history.State{}, guard.WithOutcome(fmt.Errorf("put: %w", err), guard.NotApplied)
	}
	return e.State, err
}
