package trend_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/soak/trend"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	curves := map[string]struct {
		y     func(i int) float64
		grows bool
	}{
		"level":              {func(int) float64 { return 100 }, false},
		"noisy":              {func(i int) float64 { return 100 + float64(i*7919%13) }, false},
		"leak":               {func(i int) float64 { return 100 + float64(i) }, true},
		"noisy leak":         {func(i int) float64 { return 100 + float64(i) + float64(i*7919%13) }, true},
		"saw":                {func(i int) float64 { return float64(i % 17 * 50) }, false},
		"saw with one tooth": {func(i int) float64 { return float64(i % 70 * 50) }, false},
		"saw that grows":     {func(i int) float64 { return float64(i%7*50 + 10*i) }, true},
		"warms up":           {func(i int) float64 { return float64(min(i, 20)) * 100 }, false},
		"falls":              {func(i int) float64 { return 1000 - float64(i) }, false},
		"step":               {func(i int) float64 { return 100 + float64(i/60*50) }, false},
	}
	var s trend.Samples
	for name := range curves {
		s.Metrics = append(s.Metrics, trend.Metric{Name: name, Noise: 5})
	}
	s.Metrics = append(s.Metrics, trend.Metric{Name: "absent"})
	for i := range 100 {
		values := map[string]float64{}
		for name, c := range curves {
			values[name] = c.y(i)
		}
		s.Add(time.Duration(i)*time.Minute, values)
	}
	for _, v := range s.Verdicts() {
		switch {
		case v.Name == "absent":
			if !v.Missing {
				t.Error("a metric that nobody has read is not missing")
			}
		case v.Missing, !v.Known, v.Grows != curves[v.Name].grows:
			t.Errorf("%s: %+v", v.Name, v)
		case v.Name == "leak" && (v.PerHour < 59.9 || v.PerHour > 60.1 || v.First != 125 || v.Last != 199 || v.Peak != 199):
			t.Errorf("leak of 60 per hour: %+v", v)
		}
	}
}

func TestTooShort(t *testing.T) {
	t.Parallel()
	s := trend.Samples{Metrics: []trend.Metric{{Name: "a"}}}
	for i := range 10 {
		s.Add(time.Duration(i)*time.Second, map[string]float64{"a": float64(i)})
	}
	if v := s.Verdicts()[0]; v.Known || v.Grows {
		t.Errorf("a verdict on ten samples: %+v", v)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	s := trend.Samples{Metrics: []trend.Metric{{Name: "leak"}, {Name: "log", Why: "it is one"}, {Name: "late"}}}
	for i := range 40 {
		values := map[string]float64{"leak": float64(i) * 1e6, "log": float64(i) / 2}
		if i > 38 {
			values["late"] = 1
		}
		s.Add(time.Duration(i)*time.Second, values)
	}
	var table, lines bytes.Buffer
	if err := trend.WriteTable(&table, s.Verdicts()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"39.0M", "+3.6G", "GROWS", "too short", "grow, and should not: leak\n", "grow, and may: log (it is one)\n"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, &table)
		}
	}
	if err := s.WriteCSV(&lines); err != nil {
		t.Fatal(err)
	}
	if got := lines.String(); !strings.HasPrefix(got, "seconds,leak,log,late\n0.0,0,0,\n1.0,1000000,0.5,\n") || strings.Count(got, "\n") != 41 {
		t.Errorf("%s", got)
	}
}
