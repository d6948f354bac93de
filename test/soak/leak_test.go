package soak_test

import (
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/soak/gauge"
	"github.com/fenceproxy/fenceproxy/test/soak/trend"
)

// watched are all metrics that a soak has.
func watched() []trend.Metric {
	return gauge.Metrics([]gauge.Gauge{
		gauge.Process{Name: "library"},
		gauge.Process{Name: "proxy", Admin: "there"},
		gauge.Postgres{},
		gauge.S3{},
		gauge.Etcd{},
		gauge.Redis{},
		gauge.ZooKeeper{},
	})
}

// soaked are samples as those of the shortest soak that is to find a leak: each metric is level, but for
// jitter of almost what it may have as noise, and for the leaks, which rise by so
// many times its noise in an hour.
func soaked(leaks map[string]float64) *trend.Samples {
	const readings = 240
	s := &trend.Samples{Metrics: watched()}
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range readings {
		at := telling * time.Duration(i) / readings
		values := map[string]float64{}
		for _, m := range s.Metrics {
			level := 10 * m.Noise
			noise := max(m.Noise, level/50)
			values[m.Name] = level + 0.9*noise*dice.Float64() + leaks[m.Name]*max(noise, 1)*at.Hours()
		}
		s.Add(at, values)
	}
	return s
}

// TestPlantedLeaks: a leak of each metric alone is found, by its name, at the
// shortest soak that is to find one; what is level and noisy is not, and neither is
// what may grow, nor anything in less time than that.
func TestPlantedLeaks(t *testing.T) {
	t.Parallel()
	if found := flaws(soaked(nil).Verdicts(), telling); len(found) > 0 {
		t.Errorf("nothing leaks: %q", found)
	}
	enough := 16 / telling.Hours() // four times what noise may be, from quarter to quarter
	for _, m := range watched() {
		leak := map[string]float64{m.Name: enough}
		found := flaws(soaked(leak).Verdicts(), telling)
		switch {
		case m.Why != "" && len(found) > 0:
			t.Errorf("%s may grow: %q", m.Name, found)
		case m.Why == "" && (len(found) != 1 || !strings.HasPrefix(found[0], m.Name+" grows: ")):
			t.Errorf("a leak of %s: %q", m.Name, found)
		}
		if found := flaws(soaked(leak).Verdicts(), telling-time.Second); len(found) > 0 {
			t.Errorf("%s in too short a time: %q", m.Name, found)
		}
		small := map[string]float64{m.Name: 0.1 / telling.Hours()}
		if found := flaws(soaked(small).Verdicts(), telling); len(found) > 0 && m.Noise > 0 {
			t.Errorf("%s grows by a tenth of its noise: %q", m.Name, found)
		}
	}
}

// TestMetricThatNobodyReads fails a soak of any time.
func TestMetricThatNobodyReads(t *testing.T) {
	t.Parallel()
	s := soaked(nil)
	s.Metrics = append(s.Metrics, trend.Metric{Name: "typo"})
	unread := &trend.Samples{Metrics: s.Metrics}
	for i := range 20 {
		values := map[string]float64{}
		for _, m := range s.Metrics[:len(s.Metrics)-1] {
			values[m.Name] = 1
		}
		values["typo"] = math.NaN()
		unread.Add(time.Duration(i)*time.Second, values)
	}
	if found := flaws(unread.Verdicts(), time.Second); len(found) != 1 || found[0] != "typo was never read" {
		t.Errorf("%q", found)
	}
}

// TestLeakOfThisProcess: what really leaks here is read, and found; and nothing is
// where nothing leaks.
//
//nolint:paralleltest // nobody else may be at work in this process
func TestLeakOfThisProcess(t *testing.T) {
	var kept [][]byte
	var files []*os.File
	var asleep sync.WaitGroup
	wake := make(chan struct{})
	t.Cleanup(func() {
		close(wake)
		asleep.Wait()
		for _, f := range files {
			f.Close()
		}
	})
	watch := func(leak func()) []string {
		g := []gauge.Gauge{gauge.Process{Name: "this"}}
		s := &trend.Samples{Metrics: gauge.Metrics(g)}
		const readings = 48
		for i := range readings {
			leak()
			runtime.GC()
			values, err := gauge.Read(t.Context(), g)
			if err != nil {
				t.Fatal(err)
			}
			s.Add(telling*time.Duration(i)/readings, values)
		}
		return flaws(s.Verdicts(), telling)
	}
	if found := watch(func() {}); len(found) > 0 {
		t.Errorf("nothing leaks: %q", found)
	}
	found := strings.Join(watch(func() {
		kept = append(kept, make([]byte, 512<<10))
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		asleep.Go(func() { <-wake })
	}), "\n")
	for _, what := range []string{"this heap bytes grows", "this goroutines grows", "this open files grows"} {
		if !strings.Contains(found, what) {
			t.Errorf("not found: %s, in %q", what, found)
		}
	}
	runtime.KeepAlive(kept)
}
