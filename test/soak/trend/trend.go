// Package trend tells from samples over time what grows.
//
// The first quarter of the time is for warming up. What follows is cut into three
// parts of equal length. Something grows if its lowest, its middle and its highest
// value all rise from part to part by more than noise: what is cleaned up now and
// then, like dead tuples, goes up and down like a saw, and does not grow as long
// as its teeth do not.
package trend

import (
	"math"
	"slices"
	"time"
)

// Metric is something that is sampled.
type Metric struct {
	Name string
	// Noise is how much it may rise from part to part without growing, in its
	// own unit. A fiftieth of what it is may always be.
	Noise float64
	// Why is the reason why it may grow, "" if it must not.
	Why string
}

// Samples are the values of all metrics over time.
type Samples struct {
	Metrics []Metric
	rows    []row
}

// row has the values in the order of the metrics, NaN for what was not read. It is
// kept small: the process that is watched may be this one.
type row struct {
	at     time.Duration
	values []float64
}

// Add adds what was read after some time, later than what was added before.
func (s *Samples) Add(at time.Duration, values map[string]float64) {
	r := row{at, make([]float64, len(s.Metrics))}
	for i, m := range s.Metrics {
		y, ok := values[m.Name]
		if !ok {
			y = math.NaN()
		}
		r.values[i] = y
	}
	s.rows = append(s.rows, r)
}

// Verdict is what became of a metric.
type Verdict struct {
	Metric
	// First is its value when all was warm, Last the last one, Peak the highest.
	First, Last, Peak float64
	// PerHour is its slope, by least squares, once all was warm.
	PerHour float64
	// Known is false if there were too few samples to tell whether it grows.
	Known bool
	Grows bool
	// Missing is whether it was never read.
	Missing bool
}

// fewest is how many samples each part needs.
const fewest = 4

// Verdicts are those of all metrics, in their order.
func (s *Samples) Verdicts() []Verdict {
	var all []Verdict
	for i := range s.Metrics {
		all = append(all, s.judge(i))
	}
	return all
}

func (s *Samples) judge(metric int) Verdict {
	v := Verdict{Metric: s.Metrics[metric]}
	var warm []point
	end := s.end()
	for _, r := range s.rows {
		if y := r.values[metric]; !math.IsNaN(y) && r.at >= end/4 {
			warm = append(warm, point{r.at, y})
		}
	}
	if len(warm) == 0 {
		v.Missing = true
		return v
	}
	v.First, v.Last, v.PerHour = warm[0].y, warm[len(warm)-1].y, slope(warm)
	for _, p := range warm {
		v.Peak = max(v.Peak, p.y)
	}
	var parts [3][]float64
	for _, p := range warm {
		i := int(3 * float64(p.at-end/4) / float64(end-end/4))
		parts[min(i, 2)] = append(parts[min(i, 2)], p.y)
	}
	v.Known = true
	v.Grows = true
	for i, part := range parts {
		if len(part) < fewest {
			v.Known, v.Grows = false, false
			return v
		}
		slices.Sort(part)
		if i > 0 {
			v.Grows = v.Grows && rises(parts[i-1], part, v.Noise)
		}
	}
	return v
}

func (s *Samples) end() time.Duration {
	if len(s.rows) == 0 {
		return 0
	}
	return s.rows[len(s.rows)-1].at
}

// rises says whether sorted values have risen in every respect.
func rises(before, after []float64, noise float64) bool {
	for _, of := range []func([]float64) float64{
		func(y []float64) float64 { return y[0] },
		func(y []float64) float64 { return y[len(y)/2] },
		func(y []float64) float64 { return y[len(y)-1] },
	} {
		was, is := of(before), of(after)
		if is-was <= max(noise, math.Abs(was)/50) {
			return false
		}
	}
	return true
}

type point struct {
	at time.Duration
	y  float64
}

// slope is how much the values rise in an hour, by least squares.
func slope(points []point) float64 {
	n, x, y := float64(len(points)), 0.0, 0.0
	for _, p := range points {
		x += p.at.Hours() / n
		y += p.y / n
	}
	var xy, xx float64
	for _, p := range points {
		xy += (p.at.Hours() - x) * (p.y - y)
		xx += (p.at.Hours() - x) * (p.at.Hours() - x)
	}
	if xx == 0 {
		return 0
	}
	return xy / xx
}
