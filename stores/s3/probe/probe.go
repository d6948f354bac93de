// Package probe finds out which conditions an S3 store honours.
//
// Stores that speak S3 differ most where a fence needs them: some ignore a
// condition without a word, some check it and write in two steps, some show a
// read what was there before. None of that can be told from a version or a
// name, so it is tried out: [Run] makes, overwrites and deletes small objects
// below [Prefix] of the bucket, in turn and in parallel, and reports for each
// operation what it asked and what came of it. [Report.Framed] is the verdict
// on the framed layout of package s3store.
//
// The verdict fails closed. What the layout rests on must have been seen to
// work: a condition that is ignored, refused as not implemented, or could not
// be tried, is a reason to refuse the store. What it does not rest on (the
// conditions of CopyObject, DeleteObject and DeleteObjects) is reported only.
//
// A probe can show that a store is not atomic, never that it is: a race that is
// not lost may still be there to lose. [Config.Rounds] is how hard it tries.
package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
)

// Prefix is where a probe's objects are, each run's in a folder of its own.
const Prefix = ".fence/probe/"

// Config says what to probe, and how thoroughly.
type Config struct {
	// Bucket is the bucket to probe. The store may treat others differently, by
	// versioning or a policy.
	Bucket string
	// Parallel is how many requests race for one key. Defaults to 16.
	Parallel int
	// Rounds is how often each race is run. Defaults to 3.
	Rounds int
	// Timeout is how long one request may take. Defaults to 30 s.
	Timeout time.Duration
	// Transport carries the requests that minio-go has no call for, signed like
	// the client's own. Defaults to minio-go's default transport; a client with
	// a transport of its own wants the same one here.
	Transport http.RoundTripper
}

func (c *Config) setDefaults() error {
	if c.Bucket == "" {
		return errors.New("probe: Config.Bucket is empty")
	}
	if c.Parallel < 0 || c.Parallel == 1 || c.Rounds < 0 || c.Timeout < 0 {
		return errors.New("probe: Config.Parallel, Rounds or Timeout is too small")
	}
	if c.Parallel == 0 {
		c.Parallel = 16
	}
	if c.Rounds == 0 {
		c.Rounds = 3
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	return nil
}

// Run probes a bucket and removes what it made there, also when ctx ends, and
// what a run that was killed left more than a day ago. The client must not
// retry (minio.Options.MaxRetries 1): a second attempt would hide what came of
// the first.
//
// It needs the right to put, get and delete objects and to list the bucket. An
// error means that there is nothing to report: the bucket is not there, may not
// be used, or ctx has ended. What could not be removed is in [Report.Left], and
// in the error if there is one.
func Run(ctx context.Context, client *minio.Client, config Config) (*Report, error) {
	if err := config.setDefaults(); err != nil {
		return nil, err
	}
	s, err := newStore(client, config)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := s.preflight(ctx); err != nil {
		return nil, err
	}
	report := &Report{Endpoint: client.EndpointURL().String(), Bucket: config.Bucket}
	for _, check := range checks(s) {
		row := check.row
		row.Result, row.Answer = attempt(ctx, check.try)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
			break
		}
		report.Rows = append(report.Rows, row)
	}
	report.Left = s.cleanUp(ctx)
	report.Took = time.Since(start)
	switch {
	case err != nil && len(report.Left) > 0:
		return nil, fmt.Errorf("probe bucket %q: %w; left behind: %q", config.Bucket, err, report.Left)
	case err != nil:
		return nil, fmt.Errorf("probe bucket %q: %w", config.Bucket, err)
	}
	return report, nil
}

// check is one row to be.
type check struct {
	row Row
	try func(ctx context.Context) (Result, string)
}

func checks(s *store) []check {
	put, complete := putObject(s), completeMultipart(s)
	var all []check
	for _, w := range []writer{put, complete} {
		all = append(all, conditionsOf(s, w, true)...)
	}
	all = append(all, racesOf(s, put, complete)...)
	all = append(all, etagsOf(s, put, complete)...)
	all = append(all, readsOf(s, put)...)
	all = append(all, cutOf(s))
	all = append(all, conditionsOf(s, copyObject(s), false)...)
	for _, r := range []remover{deleteObject(s), deleteObjects(s)} {
		all = append(all, removalsOf(s, put, r)...)
	}
	return append(all, abortOf(s))
}

// attempts is how often a check is tried that says nothing: a store may be
// busy, a connection may be cut.
const attempts = 3

func attempt(ctx context.Context, try func(context.Context) (Result, string)) (result Result, answer string) {
	for range attempts {
		if result, answer = try(ctx); result != Unknown || ctx.Err() != nil {
			break
		}
	}
	return result, answer
}
