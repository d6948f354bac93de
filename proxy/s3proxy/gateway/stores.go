package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// maxStores bounds how many buckets are remembered: clients with "*" choose
// their names. To forget one costs a few requests more to the store.
const maxStores = 1024

// stores are the fenced buckets that a gateway uses.
type stores struct {
	pool  *pool
	rules map[string]string // by bucket; "" for all others
	open  func(bucket string) (*s3store.Store, error)
}

// pool has the stores of all gateways that go the same way. Those for which the same rules
// count in a bucket have one there, and so know what its clients have seen.
type pool struct {
	mu sync.Mutex
	m  map[rule]*s3store.Store
}

type rule struct{ bucket, rules string }

func (s *stores) rule(bucket string) rule {
	rules, own := s.rules[bucket]
	if !own {
		rules = s.rules[""]
	}
	return rule{bucket, rules}
}

func (s *stores) get(bucket string) (*s3store.Store, error) {
	p, at := s.pool, s.rule(bucket)
	p.mu.Lock()
	defer p.mu.Unlock()
	if store := p.m[at]; store != nil {
		return store, nil
	}
	store, err := s.open(bucket)
	if err != nil {
		return nil, err
	}
	if p.m == nil {
		p.m = make(map[rule]*s3store.Store)
	}
	for old := range p.m {
		if len(p.m) < maxStores {
			break
		}
		delete(p.m, old)
	}
	p.m[at] = store
	return store, nil
}

// keep forgets the stores by other rules.
func (s *stores) keep() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	for at := range s.pool.m {
		if at != s.rule(at.bucket) {
			delete(s.pool.m, at)
		}
	}
}

// rulesOf are the rules that a store is opened by, as text, by bucket; "" for those that
// have none of their own.
func rulesOf(c *Config) map[string]string {
	const all = ""
	rules := map[string]string{all: fmt.Sprint(c.Legacy, c.Untokened)}
	sorted := slices.SortedFunc(slices.Values(c.Resources), func(a, b Resource) int { return cmp.Compare(a.Prefix, b.Prefix) })
	for _, r := range sorted {
		if rules[r.Bucket] == "" {
			rules[r.Bucket] = rules[all]
		}
		rules[r.Bucket] += fmt.Sprintf(" %q %q", r.Prefix, r.Resource)
	}
	return rules
}

func (g *Gateway) openStore(bucket string) (*s3store.Store, error) {
	prefixes := make(map[string]string)
	for _, r := range g.config.Resources {
		if r.Bucket == bucket {
			prefixes[r.Prefix] = r.Resource
		}
	}
	store, err := s3store.New(g.core.Client, s3store.Config{
		Bucket: bucket, Legacy: g.config.Legacy, Prefixes: prefixes,
		ReadWithoutToken: g.config.Untokened != Deny,
		OnlyPrefixes:     g.config.Untokened == Allow,
		UploadKey:        g.uploadKey(),
		// A PUT is a PUT: what a client wants in parts it uploads in parts.
		PartSize: maxPut,
		Objects:  g.store,
	})
	if err != nil {
		e := refusal.New(refusal.InvalidBucketName, "The specified bucket is not valid.")
		e.Cause = err
		return nil, e
	}
	return store, nil
}
