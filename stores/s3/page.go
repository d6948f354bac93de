package s3store

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
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
	// prefix. Anything but "/" costs a listing of all that is rolled up.
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
	// Prefixes are the common prefixes.
	Prefixes []string
	// Truncated: more may follow, and the next two say how to go on.
	Truncated bool
	// NextMarker is the next page's StartAfter in V1.
	NextMarker string
	// Continuation is the next page's in V2.
	Continuation string
}

// ErrContinuation says that PageOptions.Continuation is not from a Page.
var ErrContinuation = errors.New("continuation token is not one of ours")

// ListPage lists a page of objects under token. Tombstones are left out, and so
// are common prefixes that have nothing but tombstones under them: the first
// 1000 keys under a prefix are looked at for it, no more. A page is filled up,
// by as many requests as that takes.
//
// Objects that are not framed are listed as they are, unless Config.Legacy is
// set: then each object is looked at, as in List.
func (s *Store) ListPage(ctx context.Context, token guard.Token, o PageOptions) (Page, error) {
	page, err := s.listPage(ctx, token, o)
	return page, s.done(ctx, "list", o.Prefix, err)
}

func (s *Store) listPage(ctx context.Context, token guard.Token, o PageOptions) (Page, error) {
	g, err := s.reader(ctx, token, "")
	if err != nil {
		return Page{}, err
	}
	if o.Max <= 0 || o.Max > maxPage {
		o.Max = maxPage
	}
	l := &listing{store: s, grant: g, o: o, marker: o.StartAfter, v1: o.V1}
	if o.Continuation != "" {
		b, err := base64.RawURLEncoding.DecodeString(o.Continuation)
		if err != nil || len(b) < 2 || b[0] != continuation {
			return Page{}, ErrContinuation
		}
		l.marker, l.v1 = string(b[1:]), true
	}
	return l.page(ctx)
}

const (
	maxPage = 1000
	// continuation is the first byte of a continuation token, its version.
	continuation = 1
)

// listing fills a page.
type listing struct {
	store  *Store
	grant  layout.Grant
	o      PageOptions
	marker string
	v1     bool
	ended  bool
}

func (l *listing) page(ctx context.Context) (Page, error) {
	var shown []entry
	for len(shown) <= l.o.Max && !l.ended {
		more, err := l.next(ctx, min(l.o.Max+1-len(shown), maxPage))
		if err != nil {
			return Page{}, err
		}
		shown = append(shown, more...)
		if len(shown) == maxPage {
			break
		}
	}
	p := Page{Truncated: !l.ended || len(shown) > l.o.Max}
	shown = shown[:min(len(shown), l.o.Max)]
	for i := range shown {
		if shown[i].isPrefix() {
			p.Prefixes = append(p.Prefixes, shown[i].Key)
		} else {
			p.Objects = append(p.Objects, shown[i].ObjectInfo)
		}
	}
	if p.Truncated && len(shown) > 0 {
		p.NextMarker = shown[len(shown)-1].Key
		p.Continuation = base64.RawURLEncoding.EncodeToString(append([]byte{continuation}, p.NextMarker...))
	}
	return p, nil
}

// next returns what is shown of the next so many entries.
func (l *listing) next(ctx context.Context, n int) ([]entry, error) {
	entries, err := l.ask(ctx, n)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		l.marker, l.v1 = entries[len(entries)-1].Key, true
	}
	l.ended = len(entries) < n
	if l.store.config.Legacy {
		if err := l.store.lookAt(ctx, l.grant, entries); err != nil {
			return nil, err
		}
	}
	if err := l.store.hideEmpty(ctx, entries); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(entries, func(e entry) bool { return e.hidden }), nil
}

// ask returns the next entries in their order, fewer than n if that is all.
func (l *listing) ask(ctx context.Context, n int) ([]entry, error) {
	native := l.o.Delimiter == "" || l.o.Delimiter == "/"
	var entries []entry
	for info := range l.store.core.ListObjectsIter(ctx, l.store.config.Bucket, minio.ListObjectsOptions{
		Prefix: l.o.Prefix, Recursive: l.o.Delimiter != "/", StartAfter: l.marker, MaxKeys: n, UseV1: l.v1,
	}) {
		if info.Err != nil {
			return nil, info.Err
		}
		e := l.store.judge(info)
		if !native {
			e = rollUp(e, l.o.Prefix, l.o.Delimiter)
			if e.isPrefix() && (strings.HasPrefix(l.marker, e.Key) || len(entries) > 0 && entries[len(entries)-1].Key == e.Key) {
				continue
			}
		}
		if entries = append(entries, e); len(entries) == n {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.Key, b.Key) })
	return entries, nil
}

// rollUp makes a common prefix of an entry that has the delimiter behind the prefix.
func rollUp(e entry, prefix, delimiter string) entry {
	at := strings.Index(e.Key[min(len(prefix), len(e.Key)):], delimiter)
	if at < 0 || e.hidden {
		return e
	}
	return entry{ObjectInfo: minio.ObjectInfo{Key: e.Key[:len(prefix)+at+len(delimiter)]}}
}
