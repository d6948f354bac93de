package gateway

import (
	"sync"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/refusal"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// maxStores bounds how many buckets are remembered: clients with "*" choose
// their names. To forget one costs a few requests more to the store.
const maxStores = 1024

// stores are the fenced buckets that are in use.
type stores struct {
	open func(bucket string) (*s3store.Store, error)

	mu sync.Mutex
	m  map[string]*s3store.Store
}

func (s *stores) get(bucket string) (*s3store.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if store := s.m[bucket]; store != nil {
		return store, nil
	}
	store, err := s.open(bucket)
	if err != nil {
		return nil, err
	}
	if s.m == nil {
		s.m = make(map[string]*s3store.Store)
	}
	for old := range s.m {
		if len(s.m) < maxStores {
			break
		}
		delete(s.m, old)
	}
	s.m[bucket] = store
	return store, nil
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
