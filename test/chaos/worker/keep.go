package worker

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

// keep is what some of a process's hands have in common, as the goroutines of a
// program do: sessions with lock services, stores and their connections.
type keep struct {
	job  Job
	dice *rand.Rand

	mu       sync.Mutex
	services map[string]*opening
	ways     map[string]ways.Way // by name
}

// opening is a lock service, once it has been opened.
type opening struct {
	mu      sync.Mutex
	service *lockurl.Service
}

// keeps is how many of them a process has, so that what one session loses is not
// all.
const keeps = 2

func newKeep(job Job) (all [keeps]*keep) {
	for i := range all {
		all[i] = &keep{job: job, dice: dice(job.Seed, ^uint64(i)), services: map[string]*opening{}, ways: map[string]ways.Way{}}
	}
	return all
}

func (k *keep) close() {
	for _, way := range k.ways {
		way.Close()
	}
	for _, o := range k.services {
		if o.service != nil {
			_ = o.service.Close() // what it could not release ends by its time
		}
	}
}

// service is a lock service, opened at its first use; nil if it cannot be now.
func (k *keep) service(ctx context.Context, url string) *lockurl.Service {
	k.mu.Lock()
	o, ok := k.services[url]
	if !ok {
		o = &opening{}
		k.services[url] = o
	}
	k.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.service != nil {
		return o.service
	}
	target, err := lockurl.Parse(url)
	if err != nil {
		panic(err) // the test's own mistake
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if service, err := target.Open(ctx, k.job.TTL); err == nil {
		o.service = service
	}
	return o.service
}

// way is a way in, opened at its first use.
func (k *keep) way(name string) ways.Way {
	k.mu.Lock()
	defer k.mu.Unlock()
	way, ok := k.ways[name]
	if !ok {
		var err error
		if way, err = ways.Open(name, k.job.Access, k.dice); err != nil {
			panic(err) // the test's own mistake
		}
		k.ways[name] = way
	}
	return way
}

// dice are random numbers for many goroutines.
func dice(seed, n uint64) *rand.Rand { return rand.New(&source{pcg: rand.NewPCG(seed, n)}) }

// source is a source of random numbers for many goroutines.
type source struct {
	mu  sync.Mutex
	pcg *rand.PCG
}

func (s *source) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}
