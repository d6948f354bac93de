package s3store

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/listing"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// PageOptions are the options of one page of a listing, as S3's requests have
// them.
type PageOptions struct {
	// V1 lists as ListObjects does, otherwise as ListObjectsV2.
	V1 bool
	// Prefix is what the keys start with.
	Prefix string
	// Delimiter rolls up the keys that have it behind the prefix to one common
	// prefix.
	Delimiter string
	// StartAfter lists only what comes behind it; V1's marker.
	StartAfter string
	// Continuation is that of the page before; StartAfter does not count beside
	// it. It is for V2.
	Continuation string
	// Max is how many objects and common prefixes are returned at most: 1000, and
	// that is the default.
	Max int
}

// Page is one page of a listing.
type Page struct {
	// Objects are in the order of their keys; sizes are those of the payloads.
	Objects []minio.ObjectInfo
	// Prefixes are the common prefixes, in their order.
	Prefixes []string
	// Truncated: there is more, and the next two say how to go on. Of a page of
	// 1000, and one that could not be filled with reasonable effort, more may turn
	// out to be nothing.
	Truncated bool
	// NextMarker is the next page's StartAfter in V1.
	NextMarker string
	// Continuation is the next page's in V2; any store on the bucket goes on by it.
	Continuation string
}

// ErrContinuation says that PageOptions.Continuation is not from a Page.
var ErrContinuation = errors.New("continuation token is not one of ours")

// ListPage lists a page of objects under token. Tombstones are left out, and so
// are common prefixes that have nothing but tombstones under them: up to 1000
// keys under a prefix are looked at for that, Config.Parallel prefixes at once;
// one with more tombstones than that in front is listed. A page is filled up, by as
// many requests as that takes, up to 100.
//
// Objects that are not framed are listed as they are, or as if they were, for their
// size does not tell; with Config.Legacy each object is looked at, as in List.
func (s *Store) ListPage(ctx context.Context, token guard.Token, o PageOptions) (Page, error) {
	page, err := s.listPage(ctx, token, o)
	return page, s.done(ctx, "list", o.Prefix, err)
}

func (s *Store) listPage(ctx context.Context, token guard.Token, o PageOptions) (Page, error) {
	g, err := s.reader(ctx, token, "")
	if err != nil {
		return Page{}, err
	}
	if o.Max <= 0 || o.Max > listing.Most {
		o.Max = listing.Most
	}
	q := listing.Query{Prefix: o.Prefix, Delimiter: o.Delimiter, After: o.StartAfter, V1: o.V1}
	if o.Continuation != "" {
		if q.After, err = continued(o.Continuation); err != nil {
			return Page{}, err
		}
		q.V1 = true
	}
	return s.fillPage(ctx, g, q, o.Max)
}

// continued returns where a continuation token goes on.
func continued(token string) (string, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < 2 || b[0] != continuation {
		return "", ErrContinuation
	}
	return string(b[1:]), nil
}

const (
	// continuation is the first byte of a continuation token, its version.
	continuation = 1
	// maxAsked bounds how many pages of the server's are asked for to fill one.
	maxAsked = 100
)

func (s *Store) fillPage(ctx context.Context, g layout.Grant, q listing.Query, limit int) (Page, error) {
	var shown []entry
	last := false
	for asked := 0; !last && len(shown) <= limit && len(shown) < listing.Most && asked < maxAsked; asked++ {
		q.Max = min(limit+1-len(shown), listing.Most) // one more, to know whether there is more
		var infos []minio.ObjectInfo
		var err error
		if infos, last, err = s.list.Page(ctx, q); err != nil {
			return Page{}, err
		}
		if len(infos) > 0 {
			q.After, q.V1 = infos[len(infos)-1].Key, true
		}
		entries, err := s.shown(ctx, g, infos)
		if err != nil {
			return Page{}, err
		}
		shown = append(shown, entries...)
	}
	p := Page{Truncated: !last || len(shown) > limit}
	if len(shown) > limit {
		shown = shown[:limit]
		q.After = shown[limit-1].Key
	}
	for i := range shown {
		if shown[i].isPrefix() {
			p.Prefixes = append(p.Prefixes, shown[i].Key)
		} else {
			p.Objects = append(p.Objects, shown[i].ObjectInfo)
		}
	}
	if p.Truncated {
		p.NextMarker = q.After
		p.Continuation = base64.RawURLEncoding.EncodeToString(append([]byte{continuation}, q.After...))
	}
	return p, nil
}

// shown are the entries that a client gets to see.
func (s *Store) shown(ctx context.Context, g layout.Grant, infos []minio.ObjectInfo) ([]entry, error) {
	entries := make([]entry, len(infos))
	for i := range infos {
		entries[i] = s.judge(infos[i])
	}
	if err := s.lookAt(ctx, g, entries); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(entries, func(e entry) bool { return e.hidden }), nil
}
