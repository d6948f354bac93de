// Package gauge reads what may grow in the servers, the proxies and a process.
package gauge

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"

	"github.com/fenceproxy/fenceproxy/test/soak/trend"
)

// Gauge reads some metrics, by name. Read is used by one goroutine at a time.
type Gauge interface {
	Metrics() []trend.Metric
	Read(ctx context.Context) (map[string]float64, error)
}

// Metrics are those of all gauges.
func Metrics(all []Gauge) []trend.Metric {
	var list []trend.Metric
	for _, g := range all {
		list = append(list, g.Metrics()...)
	}
	return list
}

// Read reads all gauges. One that fails fails all.
func Read(ctx context.Context, all []Gauge) (map[string]float64, error) {
	values := map[string]float64{}
	for _, g := range all {
		got, err := g.Read(ctx)
		if err != nil {
			return nil, err
		}
		maps.Copy(values, got)
	}
	return values, nil
}

// How much of what is steady goes up and down.
const (
	noiseRSS  = 1 << 20
	noiseSize = 256 << 10
	noiseFew  = 4 // goroutines, connections, files: as many as hands are at work
)

// Process is what a process has, by /proc, and what it tells of itself.
type Process struct {
	// Name stands before its metrics' names.
	Name string
	// PID is its number; 0 for this process.
	PID int
	// Admin is the host:port of a fenceproxy's metrics. This process tells by
	// itself.
	Admin string
}

// Metrics are those of a process.
func (p Process) Metrics() []trend.Metric {
	list := []trend.Metric{
		{Name: p.Name + " RSS bytes", Noise: noiseRSS},
		{Name: p.Name + " heap bytes", Noise: noiseRSS},
		{Name: p.Name + " goroutines", Noise: noiseFew},
		{Name: p.Name + " threads", Noise: noiseFew},
		{Name: p.Name + " open files", Noise: noiseFew},
	}
	if p.Admin != "" {
		list = append(list, trend.Metric{Name: p.Name + " metric lines", Noise: noiseFew})
	}
	return list
}

// Read reads them.
func (p Process) Read(ctx context.Context) (map[string]float64, error) {
	values := map[string]float64{}
	if err := p.proc(values); err != nil {
		return nil, err
	}
	if p.Admin != "" {
		return values, p.told(ctx, values)
	}
	// What was alive at the last collection goes less up and down than what is in
	// use; a proxy does not tell it.
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	values[p.Name+" heap bytes"] = float64(live[0].Value.Uint64())
	values[p.Name+" goroutines"] = float64(runtime.NumGoroutine())
	return values, nil
}

// proc reads proc(5).
func (p Process) proc(values map[string]float64) error {
	dir := "/proc/self"
	if p.PID != 0 {
		dir = fmt.Sprintf("/proc/%d", p.PID)
	}
	text, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return fmt.Errorf("read what %s has: %w", p.Name, err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch key {
		case "VmRSS":
			values[p.Name+" RSS bytes"] = n * 1024
		case "Threads":
			values[p.Name+" threads"] = n
		default:
		}
	}
	files, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return fmt.Errorf("count the files of %s: %w", p.Name, err)
	}
	values[p.Name+" open files"] = float64(len(files))
	return nil
}

// told reads a proxy's metrics.
func (p Process) told(ctx context.Context, values map[string]float64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("read metrics of %s: %w", p.Name, err)
	}
	defer res.Body.Close()
	names := map[string]string{"go_goroutines": " goroutines", "go_memstats_heap_inuse_bytes": " heap bytes"}
	lines := 0
	in := bufio.NewScanner(res.Body)
	for in.Scan() {
		name, value, _ := strings.Cut(in.Text(), " ")
		if name == "#" {
			continue
		}
		lines++
		if ours, ok := names[name]; ok {
			if values[p.Name+ours], err = strconv.ParseFloat(value, 64); err != nil {
				return fmt.Errorf("read metrics of %s: %w", p.Name, err)
			}
		}
	}
	values[p.Name+" metric lines"] = float64(lines)
	return in.Err()
}
