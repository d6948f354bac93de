package gateway

import (
	"net/http"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
)

// A token is claimed in a bucket before the first thing is done under it there, reads
// included (I9): an older one is refused there afterwards, though it starts afresh.
func TestCopyClaimsWhereItReads(t *testing.T) {
	t.Parallel()
	for what, bound := range map[string]bool{"bound": true, "by its writer": false} {
		for _, several := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				other := s.server.Bucket(t)
				s.config = func(c *Config) {
					c.Clients[0].Buckets = []string{"*"}
					if bound {
						c.Resources = []Resource{{s.bucket, "", "orders"}, {other, "", "orders"}}
					}
				}
				p, old := s.proxy(t), s.proxy(t)
				inOther, oldInOther := p, old
				inOther.bucket, oldInOther.bucket = other, other
				oldInOther.put(t, "k", "A", number(1))
				tokens := []guard.Token{number(2)}
				if several {
					tokens = []guard.Token{tokenOf("invoices", 7), number(2)}
					p.put(t, "copy", "first", number(2))
				}
				copies(t, p, other+"/k", "copy", nil, tokens...).expect(t, "copy", http.StatusOK, "")
				inOther.do(t, http.MethodPut, "/k", "stale", nil, number(1)).expect(t, "stale", http.StatusPreconditionFailed, "FenceTokenStale")
			})
		}
	}
}

// A copy from where keys belong to somebody else needs no token there, and claims none.
func TestCopyOfAnothersKey(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := s.server.Bucket(t)
	s.config = func(c *Config) {
		c.Clients[0].Buckets = []string{"*"}
		c.Resources = []Resource{{s.bucket, "", "orders"}, {other, "", "invoices"}}
	}
	p := s.proxy(t)
	inOther := p
	inOther.bucket = other
	inOther.put(t, "k", "A", tokenOf("invoices", 1))
	s.link.Forget()
	copies(t, p, other+"/k", "copy", nil, number(2)).expect(t, "copy", http.StatusOK, "")
	for _, r := range s.link.Requests() {
		if r.Bucket == other && r.Key != "k" {
			t.Errorf("%s of %q", r.Op, r.Key)
		}
	}
}

// For a listing all tokens count whose keys it may show: they are claimed, and a stale
// one among them is refused, wherever it stands. Others have nothing to do with it.
func TestListingClaimsWhatItMayShow(t *testing.T) {
	t.Parallel()
	resources := func(bucket string) []Resource {
		return []Resource{{bucket, "orders/", "orders"}, {bucket, "orders/bills/", "invoices"}, {bucket, "stock/", "stock"}}
	}
	for _, c := range []struct {
		query   string
		bound   bool
		refuses bool // a stale token of invoices
	}{
		{"list-type=2", true, true},
		{"", true, true},
		{"uploads", true, true},
		{"list-type=2&prefix=orders/", true, true},
		{"list-type=2&prefix=orders/bi", true, true},
		{"list-type=2&prefix=orders/bills/7", true, true},
		{"list-type=2&prefix=stock/", true, false},
		{"list-type=2&prefix=stock/", false, true}, // by whose token they were written nobody knows
		{"uploads&prefix=stock/", true, false},
		{"list-type=2&prefix=elsewhere/", true, true},
	} {
		t.Run(c.query, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			if c.bound {
				s.config = func(config *Config) { config.Resources = resources(s.bucket) }
			}
			p, old := s.proxy(t), s.proxy(t)
			older := []guard.Token{number(2), tokenOf("stock", 2), tokenOf("invoices", 1)}
			newer := []guard.Token{number(2), tokenOf("stock", 2), tokenOf("invoices", 2)}
			old.put(t, "orders/bills/1", "A", tokenOf("invoices", 1))
			p.do(t, http.MethodGet, "?"+c.query, "", nil, newer...).expect(t, "listing", http.StatusOK, "")
			status, code := http.StatusOK, ""
			if c.refuses {
				status, code = http.StatusPreconditionFailed, "FenceTokenStale"
			}
			p.do(t, http.MethodGet, "?"+c.query, "", nil, older...).expect(t, "listing under a stale one", status, code)
			if c.refuses {
				p.do(t, http.MethodPut, "/orders/bills/2", "stale", nil, tokenOf("invoices", 1)).expect(t, "stale", status, code)
			}
		})
	}
}
