package page

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/fenceproxy/fenceproxy/test/bench/results"
)

// chart is one plot: a line for each way, over N of the rows.
type chart struct {
	file, title, x, y string
	part, bench, what string // which rows
	lines             []line
	// value is what is drawn of a way in a row.
	value func(r *results.Row, l line) results.Figure
	logY  bool
	bytes bool   // N is a size
	more  []more // lines of other benches
}

// more is a line of another bench of the part.
type more struct {
	bench string
	line  line
}

// line is a way and what it is called in the legend.
type line struct{ way, name string }

func ways(names ...string) (all []line) {
	for _, name := range names {
		all = append(all, line{name, name})
	}
	return all
}

// perSecondBy is the ratio of operations per second to those of another way.
func perSecondBy(base string) func(r *results.Row, l line) results.Figure {
	return func(r *results.Row, l line) results.Figure {
		return results.Ratio(r.Values(l.way, "per second"), r.Values(base, "per second"))
	}
}

func quantity(name string) func(r *results.Row, l line) results.Figure {
	return func(r *results.Row, l line) results.Figure { return results.Of(r.Values(l.way, name)) }
}

// unitsOverBare is what a benchmark of Go's has reported as a ratio by itself.
func unitsOverBare(r *results.Row, l line) results.Figure {
	return results.Of(r.Values("", l.way+"/bare"))
}

// Colours that can be told from white and from black, and from each other.
var (
	palette = []color.RGBA{
		{R: 0x2f, G: 0x81, B: 0xf7, A: 0xff}, {R: 0xd9, G: 0x77, B: 0x06, A: 0xff}, {R: 0x1a, G: 0xa3, B: 0x4a, A: 0xff},
		{R: 0xa8, G: 0x55, B: 0xf7, A: 0xff}, {R: 0xe5, G: 0x48, B: 0x4d, A: 0xff}, {R: 0x0e, G: 0x9f, B: 0xa8, A: 0xff},
		{R: 0xdb, G: 0x61, B: 0xa2, A: 0xff}, {R: 0x8a, G: 0x6d, B: 0x3b, A: 0xff},
	}
	ink   = color.RGBA{R: 0x7d, G: 0x85, B: 0x90, A: 0xff}
	faint = color.NRGBA{R: 0x7d, G: 0x85, B: 0x90, A: 0x50}
	marks = []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{},
	}
)

const width, height = 18 * vg.Centimeter, 8 * vg.Centimeter

// draw returns the SVG.
func (c chart) draw(p *results.Part) ([]byte, error) {
	g := c.frame(p)
	for i, l := range c.lines {
		if err := c.addLine(g, p, c.bench, i, l); err != nil {
			return nil, fmt.Errorf("%s: %w", c.file, err)
		}
	}
	for i, m := range c.more {
		if err := c.addLine(g, p, m.bench, len(c.lines)+i, m.line); err != nil {
			return nil, fmt.Errorf("%s: %w", c.file, err)
		}
	}
	if !c.logY {
		g.Y.Min = 0
	}
	svg, err := beside(g)
	if err != nil {
		return nil, err
	}
	// For those who don't have the fonts that gonum measures texts by.
	return bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif")), nil
}

func (c chart) frame(p *results.Part) *plot.Plot {
	g := plot.New()
	g.BackgroundColor = nil // that of the page
	g.Title.Text, g.X.Label.Text, g.Y.Label.Text = c.title, c.x, c.y
	g.Title.Padding = 2 * vg.Millimeter
	g.Title.TextStyle.Font.Size = 11
	g.Title.TextStyle.Font.Weight = font.WeightBold
	g.Title.TextStyle.Color, g.Title.TextStyle.Font.Variant = ink, "Sans"
	for _, axis := range []*plot.Axis{&g.X, &g.Y} {
		axis.Color, axis.Tick.Color = ink, ink
		axis.Label.TextStyle.Color, axis.Tick.Label.Color = ink, ink
		axis.Label.TextStyle.Font.Variant, axis.Tick.Label.Font.Variant = "Sans", "Sans"
		axis.Label.TextStyle.Font.Size, axis.Tick.Label.Font.Size = 10, 9
	}
	g.X.Scale, g.X.Tick.Marker = plot.LogScale{}, c.measured(p)
	if c.logY {
		g.Y.Scale, g.Y.Tick.Marker = plot.LogScale{}, powers{}
	}
	g.Legend.TextStyle.Color, g.Legend.TextStyle.Font.Variant, g.Legend.TextStyle.Font.Size = ink, "Sans", 9
	g.Legend.Padding, g.Legend.ThumbnailWidth = vg.Millimeter, 8*vg.Millimeter
	g.Legend.Left, g.Legend.Top = true, true
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	g.Add(grid)
	return g
}

// beside draws the plot, and its legend at the right of it.
func beside(g *plot.Plot) ([]byte, error) {
	legend := g.Legend
	g.Legend = plot.NewLegend()
	svg := vgsvg.New(width, height)
	all := draw.New(svg)
	const margin = 3 * vg.Millimeter // room for half a label
	room := legend.Rectangle(all).Size().X + 2*margin
	g.Draw(draw.Crop(all, 0, -room-margin, 0, 0))
	legend.Draw(draw.Crop(all, width-room, -margin, 0, -12*vg.Millimeter))
	var out bytes.Buffer
	_, err := svg.WriteTo(&out)
	return out.Bytes(), err
}

// spread are points with the least and the most of the rounds.
type spread struct {
	plotter.XYs
	plotter.YErrors
}

func (c chart) addLine(g *plot.Plot, p *results.Part, bench string, i int, l line) error {
	var s spread
	for j := range p.Rows {
		r := &p.Rows[j]
		if r.Bench != bench || r.Case != c.what || r.N == 0 {
			continue
		}
		f := c.value(r, l)
		if math.IsNaN(f.Median) {
			continue
		}
		s.XYs = append(s.XYs, plotter.XY{X: float64(r.N), Y: f.Median})
		s.YErrors = append(s.YErrors, struct{ Low, High float64 }{f.Median - f.Least, f.Most - f.Median})
	}
	if len(s.XYs) == 0 {
		return nil
	}
	drawn, points, err := plotter.NewLinePoints(s.XYs)
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(s)
	if err != nil {
		return err
	}
	tint := palette[i%len(palette)]
	drawn.Color, drawn.Width = tint, vg.Points(1.5)
	points.Color, points.Shape, points.Radius = tint, marks[i%len(marks)], vg.Points(3)
	bars.Color, bars.Width = tint, vg.Points(0.7)
	g.Add(bars, drawn, points)
	g.Legend.Add(l.name, drawn, points)
	return nil
}

// measured has a tick at each N that was.
func (c chart) measured(p *results.Part) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, r := range p.Rows {
		drawn := r.Bench == c.bench || slices.ContainsFunc(c.more, func(m more) bool { return m.bench == r.Bench })
		known := slices.ContainsFunc(ticks, func(t plot.Tick) bool { return t.Value == float64(r.N) })
		if !drawn || known || r.Case != c.what || r.N == 0 {
			continue
		}
		label := results.Count(r.N)
		if c.bytes {
			label = sizeOf(r.N)
		}
		ticks = append(ticks, plot.Tick{Value: float64(r.N), Label: label})
	}
	return ticks
}

// powers has a tick at each power of ten, and short ones at 2 and 5 of them.
type powers struct{}

// Ticks implements plot.Ticker.
func (powers) Ticks(least, most float64) (ticks []plot.Tick) {
	for v := 1e-3; v <= most; v *= 10 {
		for _, of := range []float64{1, 2, 5} {
			if at := v * of; at >= least && at <= most {
				ticks = append(ticks, plot.Tick{Value: at, Label: results.Short(at)})
			}
		}
	}
	return ticks
}

// sizeOf is "4 KiB".
func sizeOf(bytes int) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprint(bytes>>20, " MiB")
	case bytes >= 1<<10:
		return fmt.Sprint(bytes>>10, " KiB")
	}
	return fmt.Sprint(bytes, " B")
}

func (d *data) plots(dir string) error {
	for _, c := range charts() {
		p := d.parts[c.part]
		if p == nil {
			continue
		}
		svg, err := c.draw(p)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, c.file), svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}
