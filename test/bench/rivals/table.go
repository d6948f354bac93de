package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// printAll writes the table, and above it where it was made.
func printAll(w io.Writer, p plan, before string, results []*result) {
	printMachine(w, p, before, results)
	columns := []string{"", "alone: p50 / p99 ms, requests"}
	for _, n := range p.contenders {
		columns = append(columns, fmt.Sprintf("%d contenders: handover p50 / p99, wait p99 ms, requests, fairness", n))
	}
	columns = append(columns, fmt.Sprintf("%d held: goroutines, requests/s", p.held))
	row(w, columns)
	row(w, slices.Repeat([]string{"---"}, len(columns)))
	for _, r := range results {
		alone := r.samples[1]
		cells := []string{r.name, fmt.Sprintf("%s / %s, %.1f",
			ms(alone, handover(50)), ms(alone, handover(99)), median(alone, requests))}
		for _, n := range p.contenders {
			s := r.samples[n]
			cells = append(cells, fmt.Sprintf("%s / %s, %s, %.1f, %.2f",
				ms(s, handover(50)), ms(s, handover(99)), ms(s, wait(99)),
				median(s, requests), median(s, fairness)))
		}
		row(w, append(cells, r.atRest()))
	}
}

func (r *result) atRest() string {
	if !renews(r.name) {
		return fmt.Sprintf("%d, does not renew", r.goroutines)
	}
	return fmt.Sprintf("%d, %.1f", r.goroutines, r.resting)
}

// few handovers say nothing.
const few = 10

func handover(p int) func(s sample) float64 {
	return func(s sample) float64 {
		if len(s.handovers) < few {
			return math.NaN()
		}
		return percentile(s.handovers, p).Seconds() * 1e3
	}
}

func wait(p int) func(s sample) float64 {
	return func(s sample) float64 { return percentile(s.waits, p).Seconds() * 1e3 }
}

func requests(s sample) float64 { return s.requests }
func fairness(s sample) float64 { return s.fairness }

// median of the rounds.
func median(samples []sample, of func(s sample) float64) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// ms is a median in ms, with two digits that count.
func ms(samples []sample, of func(s sample) float64) string {
	value := median(samples, of)
	switch {
	case math.IsNaN(value):
		return "–"
	case value < 1:
		return fmt.Sprintf("%.2f", value)
	case value < 10:
		return fmt.Sprintf("%.1f", value)
	}
	return fmt.Sprintf("%.0f", value)
}

func row(w io.Writer, cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }

func printMachine(w io.Writer, p plan, before string, results []*result) {
	fmt.Fprintf(w, "%s, %d × %s, %s, load %s before and %s after; %s; %d rounds of %d grants",
		time.Now().Format(time.DateOnly), runtime.NumCPU(), processor(), kernel(), before, load(), runtime.Version(), p.rounds, p.grants)
	var told *family
	for _, r := range results {
		if r.family != told {
			told = r.family
			fmt.Fprintf(w, "; %s", told.about)
		}
	}
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		for _, peer := range []string{"go-redsync/redsync", "bsm/redislock", "redis/go-redis", "go-zookeeper/zk", "etcd/client/v3"} {
			if strings.Contains(dep.Path, peer) {
				fmt.Fprintf(w, "; %s %s", strings.TrimPrefix(dep.Path, "github.com/"), dep.Version)
			}
		}
	}
	fmt.Fprint(w, ".\n\n")
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, _ := strings.Cut(string(text), "model name")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(line, "\t :")
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOOS
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

// load is how many wanted to run in the last minute.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
