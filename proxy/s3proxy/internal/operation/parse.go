package operation

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Target is what a request asks for, and where.
type Target struct {
	// Operation is the zero Operation if the table has none.
	Operation

	// Bucket and Key are decoded once, and empty where the request has none.
	Bucket, Key string
	// Query are the parameters, those of a signature among them.
	Query url.Values
	// Virtual: the bucket's name came in the host.
	Virtual bool
}

// What is wrong with a request of which nothing can be told.
var (
	// ErrPath: the path cannot be decoded, or there is none.
	ErrPath = errors.New("the path cannot be read")
	// ErrQuery: the query cannot be decoded, or has a parameter twice.
	ErrQuery = errors.New("the query cannot be read, or has a parameter twice")
)

// Parser reads requests.
type Parser struct {
	domains []string
	table   []Operation
}

// NewParser returns a parser. Domains, in lower case, are those in front of which
// the host names the bucket.
func NewParser(domains []string) *Parser { return &Parser{domains, newTable()} }

// Parse tells what r asks for. The path is taken as it was sent: nothing in
// it is cleaned, and the first slash that is not encoded ends the bucket's name.
// If the query cannot be read the rest is told nonetheless.
func (p *Parser) Parse(r *http.Request) (Target, error) {
	var t Target
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), "/")
	if !ok {
		return t, ErrPath
	}
	bucket, virtual := bucketOfHost(r.Host, p.domains)
	t.Virtual = virtual
	if virtual {
		t.Bucket = bucket
	} else {
		bucket, path, _ = strings.Cut(path, "/")
		var err error
		if t.Bucket, err = url.PathUnescape(bucket); err != nil {
			return t, ErrPath
		}
		if t.Bucket == "" && path != "" {
			return t, ErrPath
		}
	}
	var err error
	if t.Key, err = url.PathUnescape(path); err != nil {
		return t, ErrPath
	}
	if t.Query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		return t, ErrQuery
	}
	for _, values := range t.Query {
		if len(values) > 1 {
			return t, ErrQuery
		}
	}
	t.Operation = p.find(r, t.scope(), t.Query)
	return t, nil
}

func (t *Target) scope() Scope {
	switch {
	case t.Bucket == "":
		return Service
	case t.Key == "":
		return Bucket
	}
	return Object
}

func bucketOfHost(host string, domains []string) (string, bool) {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(host)
	longest := ""
	for _, d := range domains {
		if len(d) > len(longest) && strings.HasSuffix(host, "."+d) {
			longest = d
		}
	}
	if longest == "" {
		return "", false
	}
	return strings.TrimSuffix(host, "."+longest), true
}

func (p *Parser) find(r *http.Request, scope Scope, query url.Values) Operation {
	copies := len(r.Header["X-Amz-Copy-Source"]) > 0
	for i := range p.table {
		o := &p.table[i]
		if o.method == r.Method && o.Scope == scope && o.copies == copies && o.asked(query) {
			return *o
		}
	}
	return Operation{Scope: scope}
}

// asked reports whether a query is one of the operation's.
func (o *Operation) asked(query url.Values) bool {
	for _, need := range o.needs {
		name, value, fixed := strings.Cut(need, "=")
		if !query.Has(name) || fixed && query.Get(name) != value {
			return false
		}
	}
	for name := range query {
		needed := func(need string) bool { n, _, _ := strings.Cut(need, "="); return n == name }
		if !slices.ContainsFunc(o.needs, needed) && !slices.Contains(o.takes, name) && !anybody(name) {
			return false
		}
	}
	return true
}

// anybody reports whether a parameter may stand in every query: those of a
// signature, which may be headers too, and those that S3 itself passes over.
func anybody(name string) bool {
	lower := strings.ToLower(name)
	return strings.HasPrefix(lower, "x-amz-") || strings.HasPrefix(lower, "x-")
}

// Foreign returns an x-amz- header of h that the operation does not heed: what
// it asks for would not be done.
func (o *Operation) Foreign(h http.Header) (string, bool) {
	for name := range h {
		if rest, ok := amz(name); ok && !heeds(o.amz, rest) {
			return strings.ToLower(name), true
		}
	}
	return "", false
}

// Elsewhere returns what it is by which the request would make the store write
// other keys than the one that it is about, or another bucket's. They are not
// looked at, so nobody could say whether they are fenced.
func (o *Operation) Elsewhere(h http.Header) (string, bool) {
	if o.apart {
		return string(o.Name), true
	}
	for name := range h {
		// Some stores take the first on any PUT; to the others MinIO takes an
		// archive apart, and makes objects of what is in it.
		rest, ok := amz(name)
		if ok && (strings.HasPrefix(rest, "rename-source") || strings.HasPrefix(rest, "snowball-") || rest == "meta-snowball-auto-extract") {
			return strings.ToLower(name), true
		}
	}
	return "", false
}

// amz is what a header is called behind "x-amz-", in lower case, if it is one of S3's.
func amz(name string) (string, bool) {
	const prefix = "x-amz-"
	if len(name) < len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return "", false
	}
	return strings.ToLower(name[len(prefix):]), true
}

func heeds(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		prefix, open := strings.CutSuffix(n, "*")
		return n == name || open && strings.HasPrefix(name, prefix)
	})
}
