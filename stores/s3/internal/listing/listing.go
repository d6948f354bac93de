// Package listing lists what is in a bucket in the order of the names, under any
// delimiter.
package listing

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
)

// Most is how many entries a server returns at most.
const Most = 1000

// Bucket is what is listed.
type Bucket struct {
	Core minio.Core
	Name string
}

// Query is what is asked for.
type Query struct {
	// Prefix is what the names start with; those that have Delimiter behind it are
	// rolled up to one common prefix.
	Prefix, Delimiter string
	// After is where the list goes on: behind this key, or this common prefix and
	// all that is under it.
	After string
	// V1 asks by ListObjects, whose After may be a common prefix on any server.
	V1 bool
	// Max is how many entries are asked for, at most Most.
	Max int
}

// IsPrefix reports whether an entry is a common prefix.
func IsPrefix(e *minio.ObjectInfo) bool { return e.ETag == "" && e.LastModified.IsZero() }

// Page returns the next entries, at most q.Max, and whether they were the last; if they
// are not, at least one. If they are q.Max there may be more or not.
func (b Bucket) Page(ctx context.Context, q Query) (entries []minio.ObjectInfo, last bool, err error) {
	if q.Delimiter == "" || q.Delimiter == "/" {
		return b.ask(ctx, q)
	}
	return b.rolled(ctx, q)
}

// ask returns a page of the server's. minio-go's other requests for one take no
// context; this one goes on by itself, so it is stopped at the end of the page.
func (b Bucket) ask(ctx context.Context, q Query) (entries []minio.ObjectInfo, last bool, err error) {
	watched, w := request.Watch(ctx)
	var asked int // requests, when the page came
	last = true
	for info := range b.Core.ListObjectsIter(watched, b.Name, minio.ListObjectsOptions{
		Prefix: q.Prefix, Recursive: q.Delimiter == "", StartAfter: q.After, MaxKeys: q.Max, UseV1: q.V1,
	}) {
		if info.Err != nil {
			return nil, false, info.Err
		}
		if asked == 0 {
			asked = w.Asked()
		}
		if w.Asked() != asked { // a page that was not full, and another behind it
			last = false
			break
		}
		info.ETag = strings.Trim(info.ETag, `"`)
		if entries = append(entries, info); len(entries) == q.Max {
			last = false
			break
		}
	}
	if err := ctx.Err(); err != nil { // the list just ends then
		return nil, false, err
	}
	// The common prefixes of a page come behind its objects.
	slices.SortFunc(entries, func(a, b minio.ObjectInfo) int { return cmp.Compare(a.Key, b.Key) })
	return entries, last, nil
}

// rolled rolls up what is listed without a delimiter: a page of the server's, or as many
// as it takes to find anything. What was rolled up is jumped over at the end of each.
func (b Bucket) rolled(ctx context.Context, q Query) (entries []minio.ObjectInfo, last bool, err error) {
	keys := Query{Prefix: q.Prefix, After: q.behind(q.After), V1: q.V1, Max: Most}
	done := q.After // the last common prefix, or what is behind it
	for {
		page, last, err := b.ask(ctx, keys)
		if err != nil {
			return nil, false, err
		}
		for _, e := range page {
			if prefix, ok := q.roll(e.Key); ok {
				if strings.HasPrefix(done, prefix) {
					continue
				}
				done = prefix
				e = minio.ObjectInfo{Key: prefix}
			}
			if entries = append(entries, e); len(entries) == q.Max {
				return entries, false, nil
			}
		}
		if last || len(page) == 0 || len(entries) > 0 {
			return entries, last || len(page) == 0, nil
		}
		keys.After, keys.V1 = page[len(page)-1].Key, true
		if prefix, ok := q.roll(keys.After); ok {
			keys.After = q.behind(prefix)
		}
	}
}

// roll returns the common prefix that key is rolled up to.
func (q *Query) roll(key string) (prefix string, ok bool) {
	if !strings.HasPrefix(key, q.Prefix) {
		return "", false
	}
	at := strings.Index(key[len(q.Prefix):], q.Delimiter)
	if at < 0 {
		return "", false
	}
	return key[:len(q.Prefix)+at+len(q.Delimiter)], true
}

// behind returns a name that comes behind all that is rolled up to a common
// prefix, or as good as all; another name is returned as it is.
func (q *Query) behind(name string) string {
	const highest = "\U0010FFFF"
	if prefix, ok := q.roll(name); ok && prefix == name && len(name)+len(highest) <= 1024 {
		return name + highest
	}
	return name
}
