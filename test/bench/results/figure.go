package results

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
)

// Figure is the median of the rounds, with the least and the most.
type Figure struct{ Median, Least, Most float64 }

// Of makes a figure of the values of all rounds; NaN of none.
func Of(values []float64) Figure {
	if len(values) == 0 {
		return Figure{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	return Figure{sorted[len(sorted)/2], sorted[0], sorted[len(sorted)-1]}
}

// Ratio is that of two ways in the same round.
func Ratio(of, to []float64) Figure {
	ratios := make([]float64, min(len(of), len(to)))
	for i := range ratios {
		ratios[i] = of[i] / to[i]
	}
	return Of(ratios)
}

// String is "0.85 [0.80–0.91]".
func (f Figure) String() string {
	if math.IsNaN(f.Median) {
		return "–"
	}
	if f.Least == f.Most {
		return Digits(f.Median)
	}
	return fmt.Sprintf("%s [%s–%s]", Digits(f.Median), Digits(f.Least), Digits(f.Most))
}

// Digits writes a value with as many digits as are worth reading.
func Digits(v float64) string {
	switch size := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case size >= 1000:
		return thousands(fmt.Sprintf("%.0f", v))
	case size >= 20:
		return fmt.Sprintf("%.0f", v)
	case size >= 3:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Count is a whole number, with commas.
func Count(n int) string { return thousands(fmt.Sprint(n)) }

// Short is a value without digits that say nothing: 0.05, 2, 1,000.
func Short(v float64) string {
	if v >= 1 {
		return thousands(fmt.Sprintf("%.0f", v))
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

func thousands(digits string) string {
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

var series = regexp.MustCompile(`\{\s*"quantity": (.*),\s*"values": \[([^\]]*)\]\s*\}`)

// compact puts each series of an indented text into a line.
func compact(text []byte) []byte {
	return series.ReplaceAllFunc(text, func(match []byte) []byte {
		parts := series.FindSubmatch(match)
		values := regexp.MustCompile(`\s+`).ReplaceAll(parts[2], nil)
		return fmt.Appendf(nil, `{"quantity": %s, "values": [%s]}`, parts[1], values)
	})
}
