package operation

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Of the words that a request comes with so many are said again.
const (
	maxNamed  = 8  // parameters
	maxMethod = 16 // bytes of a method
)

const copySource = "x-amz-copy-source"

// Unknown says in a few words what a request asks for that is none of the table's. A
// parameter is named if S3 has one of that name, and never with its value: whatever else
// is in a query is the client's own.
func (p *Parser) Unknown(r *http.Request, t *Target) string {
	if !slices.ContainsFunc(p.table, func(o Operation) bool { return o.method == r.Method }) {
		if len(r.Method) > maxMethod {
			return "The method"
		}
		return "The method " + r.Method
	}
	with := slices.DeleteFunc([]string{p.parameters(t), copies(r)}, func(what string) bool { return what == "" })
	text := r.Method + " of " + t.Scope.String()
	if len(with) == 0 {
		return text
	}
	return text + " with " + strings.Join(with, " and ")
}

// parameters names those of a query; "": there is none that matters.
func (p *Parser) parameters(t *Target) string {
	known := p.names()
	var named []string
	strange := false
	for name := range t.Query {
		switch {
		case strings.EqualFold(name, copySource): // a header only, though others of a signature's are both
			named = append(named, copySource)
		case anybody(name):
		case known[name]:
			named = append(named, name)
		default:
			strange = true
		}
	}
	slices.Sort(named)
	if more := len(named) - maxNamed; more > 0 {
		named = append(named[:maxNamed], strconv.Itoa(more)+" more")
	}
	switch text := "the query parameter"; {
	case len(named) == 0 && strange:
		return "a query parameter that S3 does not have"
	case len(named) == 0:
		return ""
	case strange:
		return text + "s " + strings.Join(append(named, "one that S3 does not have"), ", ")
	case len(named) > 1:
		return text + "s " + strings.Join(named, ", ")
	default:
		return text + " " + named[0]
	}
}

// names are those of all parameters in the table.
func (p *Parser) names() map[string]bool {
	known := map[string]bool{}
	for i := range p.table {
		for _, name := range slices.Concat(p.table[i].needs, p.table[i].takes) {
			name, _, _ = strings.Cut(name, "=")
			known[name] = true
		}
	}
	return known
}

func copies(r *http.Request) string {
	if len(r.Header["X-Amz-Copy-Source"]) > 0 {
		return "the header " + copySource
	}
	return ""
}

// String is what a scope is called in a sentence.
func (s Scope) String() string {
	switch s {
	case Bucket:
		return "a bucket"
	case Object:
		return "an object"
	case Service:
		return "the list of buckets"
	}
	return ""
}
