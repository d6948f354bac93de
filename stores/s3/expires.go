package s3store

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/internal/frame"
)

// Many objects on the web have an Expires that is no date: "0", or "-1". S3 stores that
// as it is, and minio-go fails on every answer that has it.

// Transport returns base as the client of a Store needs it (minio.Options.Transport) in a
// bucket that may have objects whose Expires is no date. Without it minio-go reads none
// of them, and so they cannot be overwritten or deleted either.
func Transport(base http.RoundTripper) http.RoundTripper { return transport{base} }

type transport struct{ base http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.base.RoundTrip(r)
	if err != nil {
		return res, err
	}
	if text := res.Header.Get("Expires"); text != "" {
		if _, err := time.Parse(http.TimeFormat, text); err != nil {
			res.Header.Del("Expires")
			res.Header.Set(frame.ExpiresHeader, text)
		}
	}
	return res, nil
}

// Expires is what is stored with an object as its Expires, which may be no date.
func Expires(info *minio.ObjectInfo) string {
	if text := info.Metadata.Get("Expires"); text != "" {
		return text
	}
	return frame.Expires(info)
}

var errExpires = errors.New("minio-go does not read an object whose Expires is no date: give its client s3store.Transport")

// explain says of an error of minio-go's what helps.
func explain(err error) error {
	if r := (minio.ErrorResponse{}); errors.As(err, &r) && strings.HasPrefix(r.Message, "'Expiry' is not in supported format") {
		return fmt.Errorf("%w: %w", errExpires, err)
	}
	return err
}
