package results_test

import (
	"reflect"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/bench/results"
)

func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	row := results.Row{Bench: "objects", Case: "PUT", N: 4096}
	for _, v := range []float64{2182.26, 2000, 0.125} {
		row.Add("direct", "per second", v)
	}
	saved := &results.Part{Name: "s3proxy", Date: "2026-11-30", Of: []string{"nginx 1.22.1"}, Rows: []results.Row{row}}
	if err := saved.Save(dir); err != nil {
		t.Fatal(err)
	}
	loaded, err := results.Load(dir, "s3proxy")
	if err != nil {
		t.Fatal(err)
	}
	saved.Rows[0].Ways[0].Series[0].Values[0] = 2182.3 // of five digits
	if !reflect.DeepEqual(saved, loaded) {
		t.Errorf("saved %+v, loaded %+v", saved, loaded)
	}
	if none, err := results.Load(dir, "locks"); none != nil || err != nil {
		t.Errorf("of a part that was not measured: %v, %v", none, err)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]results.Figure{
		"0.85 [0.80–0.91]": results.Of([]float64{0.91, 0.8, 0.85}),
		"0.50 [0.25–2.00]": results.Ratio([]float64{1, 1, 4}, []float64{2, 4, 2}),
		"12,346":           results.Of([]float64{12345.6}),
		"–":                results.Of(nil),
	} {
		if got.String() != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
