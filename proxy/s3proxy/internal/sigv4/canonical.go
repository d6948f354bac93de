package sigv4

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/plainhead"
)

// target is the path and the query of a request, as they were sent.
type target struct {
	path    string // raw
	decoded string
	query   []pair
}

// pair is a parameter of the query, decoded and raw.
type pair struct{ name, value, rawName, rawValue string }

// parseTarget takes a request's target apart. It refuses a query of which
// url.ParseQuery would drop something: a signature must not be good for less
// than it was made for, and "%3B" signs the same as ";".
func parseTarget(r *http.Request) (*target, error) {
	path, query, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") { // the absolute form, which is for proxies
		path, query = r.URL.EscapedPath(), r.URL.RawQuery
	}
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return nil, malformedURI()
	}
	t := &target{path: path, decoded: decoded}
	if query == "" {
		return t, nil
	}
	if _, err := url.ParseQuery(query); err != nil {
		return nil, malformedURI()
	}
	for text := range strings.SplitSeq(query, "&") {
		if text == "" {
			continue
		}
		var p pair
		p.rawName, p.rawValue, _ = strings.Cut(text, "=")
		p.name, _ = url.QueryUnescape(p.rawName) // as ParseQuery could
		p.value, _ = url.QueryUnescape(p.rawValue)
		t.query = append(t.query, p)
	}
	return t, nil
}

func malformedURI() *Error {
	return refuse(http.StatusBadRequest, "InvalidURI", "Couldn't parse the specified URI.")
}

func (t *target) has(name string) bool {
	return slices.ContainsFunc(t.query, func(p pair) bool { return p.name == name })
}

func (t *target) values(name string) (values []string) {
	for _, p := range t.query {
		if p.name == name {
			values = append(values, p.value)
		}
	}
	return values
}

// spelling is a set of ways in which clients differ over the same request. In
// all of them the canonical request tells what the request means.
type spelling uint8

const (
	rawPath   spelling = 1 << iota // the path as sent: some leave "=" or ":" bare
	rawQuery                       // the query as sent
	rawSpaces                      // two spaces in a header are two: only the ends are trimmed
	spellings spelling = 1 << iota
)

// differs tells whether a spelling differs from those that have less in them.
func (c *claim) differs(r *http.Request, t *target, s spelling) bool {
	if s&rawPath != 0 && string(appendEscaped(nil, t.decoded, true)) == t.path {
		return false
	}
	if s&rawQuery != 0 && !slices.ContainsFunc(t.query, func(p pair) bool {
		return string(appendEscaped(nil, p.name, false)) != p.rawName || string(appendEscaped(nil, p.value, false)) != p.rawValue
	}) {
		return false
	}
	return s&rawSpaces == 0 || slices.ContainsFunc(c.signed, func(name string) bool {
		return slices.ContainsFunc(valuesOf(r, name, new([1]string)), func(value string) bool {
			value = strings.Trim(value, " \t")
			return string(appendCollapsed(nil, value)) != value
		})
	})
}

// canonical appends the canonical request.
//
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
func (c *claim) canonical(b []byte, r *http.Request, t *target, s spelling) []byte {
	b = append(append(b, r.Method...), '\n')
	if s&rawPath != 0 {
		b = append(b, t.path...)
	} else {
		b = appendEscaped(b, t.decoded, true)
	}
	b = append(b, '\n')
	b = append(c.appendQuery(b, t, s), '\n')
	var one [1]string
	for _, name := range c.signed {
		b = append(append(b, name...), ':')
		for i, value := range valuesOf(r, name, &one) {
			if i > 0 {
				b = append(b, ',')
			}
			if value = strings.Trim(value, " \t"); s&rawSpaces != 0 {
				b = append(b, value...)
			} else {
				b = appendCollapsed(b, value)
			}
		}
		b = append(b, '\n')
	}
	b = appendNames(append(b, '\n'), c.signed)
	return append(append(b, '\n'), c.hashed...)
}

// appendNames appends the names of headers as SignedHeaders has them.
func appendNames(b []byte, names []string) []byte {
	for i, name := range names {
		if i > 0 {
			b = append(b, ';')
		}
		b = append(b, name...)
	}
	return b
}

// appendQuery appends the query in order, without the signature itself. A "+"
// is a space, as it is to whoever acts on the query, unless the client signed it
// as it stands.
func (c *claim) appendQuery(b []byte, t *target, s spelling) []byte {
	if len(t.query) == 0 {
		return b
	}
	type encoded struct{ name, value string }
	sorted := make([]encoded, 0, len(t.query))
	for _, p := range t.query {
		switch {
		case c.presigned && p.name == "X-Amz-Signature":
		case s&rawQuery != 0:
			sorted = append(sorted, encoded{p.rawName, p.rawValue})
		default:
			sorted = append(sorted, encoded{string(appendEscaped(nil, p.name, false)), string(appendEscaped(nil, p.value, false))})
		}
	}
	slices.SortFunc(sorted, func(x, y encoded) int {
		if order := strings.Compare(x.name, y.name); order != 0 {
			return order
		}
		return strings.Compare(x.value, y.value)
	})
	for i, p := range sorted {
		if i > 0 {
			b = append(b, '&')
		}
		b = append(append(append(b, p.name...), '='), p.value...)
	}
	return b
}

// valuesOf is what a client sent in a header, with those that net/http's server
// takes out of Header. It takes out no other ones. Those are put into one.
func valuesOf(r *http.Request, name string, one *[1]string) []string {
	switch name {
	case "host":
		one[0] = r.Host
		return one[:]
	case "content-length":
		if r.ContentLength < 0 {
			return nil
		}
		one[0] = strconv.FormatInt(r.ContentLength, 10)
		return one[:]
	case "transfer-encoding":
		return r.TransferEncoding
	}
	return r.Header[plainhead.Canonical(name)]
}

// appendEscaped appends a text with every byte encoded that is not unreserved
// in RFC 3986, or a slash that is kept.
func appendEscaped(b []byte, text string, slash bool) []byte {
	const hexDigits = "0123456789ABCDEF"
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '-', c == '_', c == '.', c == '~', c == '/' && slash:
			b = append(b, c)
		default:
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&0xf])
		}
	}
	return b
}

// appendCollapsed appends a text with every run of spaces as one.
func appendCollapsed(b []byte, text string) []byte {
	space := false
	for i := range len(text) {
		if c := text[i]; c != ' ' && c != '\t' {
			b, space = append(b, c), false
		} else if !space {
			b, space = append(b, ' '), true
		}
	}
	return b
}
