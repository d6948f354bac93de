package soak_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/soak/gauge"
	"github.com/fenceproxy/fenceproxy/test/soak/load"
	"github.com/fenceproxy/fenceproxy/test/soak/trend"
)

const (
	// durationEnv is how long the soak goes on, defaultDuration without it.
	durationEnv     = "FENCE_SOAK"
	defaultDuration = 6 * time.Second
	// seedEnv is its seed; without it each has another one.
	seedEnv = "FENCE_SOAK_SEED"
	// telling is how long it has to go on until growth fails it: long enough for
	// autovacuum, which comes once a minute, and checkpoints, every five minutes.
	telling = 14 * time.Minute
)

func TestSoak(t *testing.T) {
	t.Parallel()
	duration, seed := settings(t)
	t.Logf("%s=%v %s=%d", durationEnv, duration, seedEnv, seed)
	r := newRig(t, seed)
	samples := &trend.Samples{Metrics: gauge.Metrics(r.gauges)}
	counts := r.run(duration, samples)
	verdicts := samples.Verdicts()
	report(t, samples, verdicts, fmt.Sprintf("%v, seed %d: %d writes (%s), %d left in the middle, %d refused, %d late, %d failed",
		duration, seed, counts.Writes.Load(), byWay(counts), counts.Left.Load(), counts.Refused.Load(), counts.Late.Load(), counts.Failed.Load()))
	for i, name := range load.Ways() {
		if counts.ByWay[i].Load() == 0 {
			t.Errorf("no write by %s", name)
		}
	}
	if n := counts.Failed.Load(); n > 0 {
		t.Errorf("%d acts failed, the first of them:\n%v", n, errors.Join(counts.Failures()...))
	}
	for _, flaw := range flaws(verdicts, duration) {
		t.Error(flaw)
	}
}

// flaws are what verdicts after that time fail a soak for.
func flaws(verdicts []trend.Verdict, duration time.Duration) []string {
	var all []string
	for _, v := range verdicts {
		switch {
		case v.Missing:
			all = append(all, v.Name+" was never read")
		case v.Grows && v.Why == "" && duration >= telling:
			all = append(all, fmt.Sprintf("%s grows: %.1f per hour", v.Name, v.PerHour))
		}
	}
	return all
}

func settings(tb testing.TB) (time.Duration, uint64) {
	tb.Helper()
	duration, seed := defaultDuration, rand.Uint64N(1<<32)
	var err error
	if text := os.Getenv(durationEnv); text != "" {
		if duration, err = time.ParseDuration(text); err != nil {
			tb.Fatalf("%s: %v", durationEnv, err)
		}
	}
	if text := os.Getenv(seedEnv); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("%s: %v", seedEnv, err)
		}
	}
	return duration, seed
}

// run has everybody work, and reads all the while.
func (r *rig) run(duration time.Duration, samples *trend.Samples) *load.Counts {
	r.tb.Helper()
	ctx, cancel := context.WithTimeout(r.tb.Context(), duration)
	defer cancel()
	var counts load.Counts
	worked := make(chan error, 1)
	go func() { worked <- load.Run(ctx, r.job, &counts) }()
	mortal := r.job
	mortal.Hands = 4
	crew := []*member{hire(r.tb, 1, mortal), hire(r.tb, 2, mortal)}

	dice := rand.New(rand.NewPCG(r.job.Seed, 0))
	read := every(ctx, min(max(duration/240, 200*time.Millisecond), 30*time.Second))
	death := every(ctx, min(5*time.Second, duration/4))
	sweep := every(ctx, min(30*time.Second, duration/4))
	tell := every(ctx, duration/10)
	start := time.Now()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-read:
			values, err := gauge.Read(ctx, r.gauges)
			if err == nil {
				samples.Add(time.Since(start), values)
			} else if ctx.Err() == nil {
				r.tb.Errorf("read gauges: %v", err)
			}
		case <-death:
			crew[dice.IntN(len(crew))].replace()
		case <-sweep:
			r.sweep(ctx, min(2*time.Minute, duration/4))
		case <-tell:
			r.tb.Logf("%v: %d writes, %d refused, %d late, %d failed %v", time.Since(start).Round(time.Second),
				counts.Writes.Load(), counts.Refused.Load(), counts.Late.Load(), counts.Failed.Load(), counts.Failures())
		case err := <-worked:
			r.tb.Fatalf("the work has ended: %v", err)
		}
	}
	if err := <-worked; err != nil {
		r.tb.Error(err)
	}
	return &counts
}

// every ticks until ctx ends.
func every(ctx context.Context, d time.Duration) <-chan time.Time {
	ticker := time.NewTicker(d)
	context.AfterFunc(ctx, ticker.Stop)
	return ticker.C
}

// sweep does what an operator has to have done: docs/operations.md, What grows.
func (r *rig) sweep(ctx context.Context, age time.Duration) {
	r.tb.Helper()
	if _, err := r.store.AbortUploads(ctx, "", age); err != nil && ctx.Err() == nil {
		r.tb.Errorf("abort uploads: %v", err)
	}
	now, err := r.etcd.Get(ctx, "/")
	if err == nil {
		_, err = r.etcd.Compact(ctx, now.Header.Revision)
	}
	if err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), "has been compacted") {
		r.tb.Errorf("compact etcd: %v", err)
	}
}

func byWay(counts *load.Counts) string {
	var parts []string
	for i, name := range load.Ways() {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts.ByWay[i].Load()))
	}
	return strings.Join(parts, ", ")
}

// report leaves the table and all samples with the test's artifacts.
func report(tb testing.TB, samples *trend.Samples, verdicts []trend.Verdict, title string) {
	tb.Helper()
	var table, lines bytes.Buffer
	fmt.Fprintf(&table, "%s\n\n", title)
	if err := trend.WriteTable(&table, verdicts); err != nil {
		tb.Fatal(err)
	}
	if err := samples.WriteCSV(&lines); err != nil {
		tb.Fatal(err)
	}
	for name, text := range map[string]*bytes.Buffer{"soak.txt": &table, "soak.csv": &lines} {
		if err := os.WriteFile(filepath.Join(tb.ArtifactDir(), name), text.Bytes(), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Logf("in %s:\n%s", tb.ArtifactDir(), &table)
}

// ready asks a fenceproxy whether it serves.
func ready(ctx context.Context, admin string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz: %s", res.Status)
	}
	return nil
}

func replaced(config, addr string) string { return strings.ReplaceAll(config, "LISTEN", addr) }
