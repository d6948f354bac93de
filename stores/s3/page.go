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
	// out to be nothing. A page on which there is nothing is not truncated.
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
// many requests as that takes: one where nothing is hidden. After some hundred more a page
// ends with what is on it; if that is nothing they go on to the end of the list, for as
// long as ctx does.
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

// continuation is the first byte of a continuation token, its version.
const continuation = 1

func (s *Store) fillPage(ctx context.Context, g layout.Grant, q listing.Query, limit int) (Page, error) {
	q.Max = min(limit+1, listing.Most) // one more, to know whether there is more
	q.After = layout.BehindReserved(q.After)
	f := filling{store: s, grant: g, limit: limit, after: q.After}
	last := false
	for !last && !f.over() && len(f.shown) < listing.Most {
		var infos []minio.ObjectInfo
		var err error
		if infos, last, err = s.list.Page(ctx, q); err != nil {
			return Page{}, err
		}
		rest, err := f.take(ctx, infos)
		if err != nil {
			return Page{}, err
		}
		last = last && rest == 0
		q.After, q.V1 = f.after, q.V1 || len(infos) > 0
		q.Max = listing.Most // what is hidden comes in crowds
	}
	return f.page(last), nil
}

// filling is a page on the way. It has no more than a page of the server's beside its own.
type filling struct {
	store *Store
	grant layout.Grant
	limit int
	shown []entry
	after string // the last name that was looked at
	// effort is about how many requests were of no use.
	effort int
}

// maxEffort ends a page that is not full; but one on which there is nothing says that
// there is nothing, whatever it costs to know: clients ask for one key to see if there
// are any.
const maxEffort = 500

func (f *filling) over() bool {
	return len(f.shown) > f.limit || len(f.shown) > 0 && f.effort >= maxEffort
}

// take looks at as many of the entries as the page needs, and returns how many are left.
func (f *filling) take(ctx context.Context, infos []minio.ObjectInfo) (rest int, err error) {
	f.effort++
	for len(infos) > 0 && !f.over() {
		n := min(len(infos), max(f.limit+1-len(f.shown), f.store.config.Parallel, 1))
		entries, err := f.store.shown(ctx, f.grant, infos[:n])
		if err != nil {
			return 0, err
		}
		f.after = layout.BehindReserved(infos[n-1].Key)
		f.effort += hiddenPrefixes(infos[:n], entries)
		f.shown, infos = append(f.shown, entries...), infos[n:]
	}
	return len(infos), nil
}

// hiddenPrefixes counts the common prefixes that are not shown, which were asked for.
func hiddenPrefixes(infos []minio.ObjectInfo, shown []entry) (n int) {
	for i := range infos {
		if listing.IsPrefix(&infos[i]) {
			n++
		}
	}
	for i := range shown {
		if shown[i].isPrefix() {
			n--
		}
	}
	return n
}

// page is what has been filled. Last says that nothing comes behind it.
func (f *filling) page(last bool) Page {
	p := Page{Truncated: !last || len(f.shown) > f.limit}
	if len(f.shown) > f.limit {
		f.shown = f.shown[:f.limit]
		f.after = f.shown[f.limit-1].Key
	}
	for i := range f.shown {
		if f.shown[i].isPrefix() {
			p.Prefixes = append(p.Prefixes, f.shown[i].Key)
		} else {
			p.Objects = append(p.Objects, f.shown[i].ObjectInfo)
		}
	}
	if p.Truncated {
		p.NextMarker = f.after
		p.Continuation = base64.RawURLEncoding.EncodeToString(append([]byte{continuation}, f.after...))
	}
	return p
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
