package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/locks"
)

// Job is what one process does.
type Job struct {
	// Seed decides what it does; when, the machine decides.
	Seed uint64 `json:"seed"`
	// Hands is how many holders it is at a time.
	Hands int `json:"hands"`
	// Resources is how many locks there are in each service and for each way in.
	Resources int `json:"resources"`
	// TTL is that of the leases.
	TTL time.Duration `json:"ttl"`
	// Locks are the URLs of the lock services.
	Locks []string `json:"locks"`
	// Postgres is the URL of the database, with Table in it, and Proxy the same
	// through a fenceproxy.
	Postgres string `json:"postgres"`
	Proxy    string `json:"proxy"`
	// S3 is a bucket, and S3Proxy the same through a fenceproxy.
	S3      Bucket `json:"s3"`
	S3Proxy Bucket `json:"s3_proxy"`
}

// Bucket is one bucket of an S3 server without TLS.
type Bucket struct {
	Endpoint  string `json:"endpoint"`
	Region    string `json:"region"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Name      string `json:"name"`
}

// patience is how long a step may take before it is given up.
const patience = 10 * time.Second

// Counts is what came of the work so far. It is safe for use by many goroutines.
type Counts struct {
	// Writes were acknowledged; Left ended in the middle, on purpose.
	Writes, Left atomic.Int64
	// Refused tokens were of holders who had lost their lease; Late acts took
	// longer than patience; Failed is whatever else went wrong.
	Refused, Late, Failed atomic.Int64
	// ByWay are the writes of each way in.
	ByWay [len(ways)]atomic.Int64

	mu       sync.Mutex
	failures []error
}

// Failures are the first errors that Failed counts.
func (c *Counts) Failures() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.failures)
}

// remembered is how many failures are kept.
const remembered = 20

func (c *Counts) count(by string, err error) {
	if err != nil {
		err = fmt.Errorf("%s: %w", by, err)
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled):
	case errors.Is(err, guard.ErrStale), errors.Is(err, locks.ErrLost):
		c.Refused.Add(1)
	case errors.Is(err, context.DeadlineExceeded):
		c.Late.Add(1)
	default:
		c.Failed.Add(1)
		c.mu.Lock()
		if len(c.failures) < remembered {
			c.failures = append(c.failures, err)
		}
		c.mu.Unlock()
	}
}

// Main is Run for a process that is told its job on stdin and ends with it. Its
// program has no other business: what is left when it is killed is what is wanted.
func Main(stdin io.Reader) error {
	var job Job
	decoder := json.NewDecoder(stdin)
	if err := decoder.Decode(&job); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	return Run(ctx, job, &Counts{})
}

// Run works until ctx ends, and lets what is under way come to its end.
func Run(ctx context.Context, job Job, counts *Counts) error {
	w := &worker{job: job, counts: counts}
	defer w.close()
	if err := w.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	var hands sync.WaitGroup
	for i := range job.Hands {
		hands.Go(func() {
			h := &hand{w, rand.New(rand.NewPCG(job.Seed, uint64(i)))}
			for ctx.Err() == nil {
				h.round(ctx)
			}
		})
	}
	hands.Wait()
	return nil
}

type worker struct {
	job      Job
	counts   *Counts
	services []*lockurl.Service
	ways     [len(ways)]way
}

func (w *worker) open(ctx context.Context) error {
	for _, url := range w.job.Locks {
		target, err := lockurl.Parse(url)
		if err != nil {
			return err
		}
		service, err := target.Open(ctx, w.job.TTL)
		if err != nil {
			return fmt.Errorf("open %v: %w", target, err)
		}
		w.services = append(w.services, service)
	}
	for i, open := range ways {
		var err error
		if w.ways[i], err = open.open(ctx, w.job); err != nil {
			return fmt.Errorf("open %s: %w", open.name, err)
		}
	}
	return nil
}

func (w *worker) close() {
	for _, way := range w.ways {
		if way != nil {
			way.close()
		}
	}
	for _, s := range w.services {
		_ = s.Close() // what it could not release ends by its time
	}
}

type hand struct {
	*worker
	dice *rand.Rand
}

// round is one holder's life.
func (h *hand) round(ctx context.Context) {
	service, way := h.dice.IntN(len(h.services)), h.dice.IntN(len(ways))
	resource := fmt.Sprintf("%s-%d-%d", ways[way].name, service, h.dice.IntN(h.job.Resources))
	waiting, cancel := context.WithTimeout(ctx, patience)
	lease, err := h.services[service].Acquire(waiting, resource)
	cancel()
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			h.counts.count("acquire", err) // who queued in vain has not failed
		}
		return
	}
	// What is under way when the work ends comes to its own end.
	steps, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience+3*h.job.TTL)
	defer cancel()
	h.counts.count(ways[way].name, h.hold(steps, ctx.Done(), lease, way))
	if err := lease.Release(steps); !errors.Is(err, locks.ErrLost) {
		h.counts.count("release", err)
	}
}

// hold claims and writes. One of twenty holders leaves in the middle, one of
// twenty holds on until its lease has been renewed.
func (h *hand) hold(ctx context.Context, end <-chan struct{}, lease locks.Lease, way int) error {
	tenure, err := h.ways[way].enter(ctx, lease.Token())
	if err != nil {
		return err
	}
	defer tenure.leave()
	for range 1 + h.dice.IntN(4) {
		if err := tenure.write(ctx, h.dice); err != nil {
			return err
		}
		h.counts.Writes.Add(1)
		h.counts.ByWay[way].Add(1)
	}
	switch h.dice.IntN(20) {
	case 0:
		h.counts.Left.Add(1)
		return tenure.abandon(ctx, h.dice)
	case 1:
		select {
		case <-time.After(h.job.TTL + h.job.TTL/2):
		case <-lease.Lost():
		case <-end:
		}
	default:
	}
	return nil
}
