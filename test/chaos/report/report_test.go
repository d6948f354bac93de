package report_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
	"github.com/fenceproxy/fenceproxy/test/chaos/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReport(t *testing.T) {
	t.Parallel()
	write := func(began, ended int64, outcome guard.Outcome, reason string) history.Op {
		return history.Op{Kind: history.Write, Way: "pgstore", Began: began, Ended: ended, Outcome: outcome, Reason: reason}
	}
	r := report.New("A run", 7, "make chaos SEED=7")
	r.Lasted, r.Cannot = 90*time.Second, []string{"disk full: no"}
	r.Add([]history.Op{
		{Kind: history.Claim, Way: "pgstore", Holder: "h", Began: 1, Ended: 2e6, Outcome: guard.Applied},
		write(2, 3, guard.Applied, ""),
		write(3, 0, guard.Unknown, ""), // its process was killed before the fault
		{Kind: history.Fault, Way: "link cut", Began: 10, Ended: 20, Outcome: guard.Applied},
		{Kind: history.Fault, Way: "leader killed", Began: 10, Ended: 11, Outcome: guard.NotApplied}, // there was none
		write(5, 12, guard.Applied, ""),
		write(15, 16, guard.Refused, "stale"),
		write(17, 30, guard.Unknown, ""),
		write(40, 41, guard.NotApplied, "40001"),
	}, []check.Violation{{Invariant: "I1", Way: "pgstore", At: 15, Resource: "r", Text: "stale"}})
	if r.Faults() != 1 || r.Writes() != 6 || len(r.Violations()) != 1 {
		t.Errorf("%d faults, %d writes, %v", r.Faults(), r.Writes(), r.Violations())
	}
	var text strings.Builder
	r.Print(&text)
	for _, want := range []string{
		"# A run, seed 7\n\n1 faults, 6 writes (2 acknowledged) under 1 tokens in 1 rounds within 1m30s: 1 violations.",
		"`make chaos SEED=7`", "Cannot be here: disk full: no.",
		"| pgstore | 6      | 2            | 1       | 1           | 2       | 0     | 1      | 2ms, 2ms                     | I1 1       |",
		"pgstore, what was not applied: 40001 1, other 1, stale 1",
		"| link cut | 1     | 1/1/1 **1** |",
		"- I1 at r by pgstore: stale",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "leader killed") {
		t.Errorf("a fault that did not happen is in\n%s", &text)
	}
	f := r.Figures()
	if got, want := f.Table["link cut"], (report.Row{Times: 1, Ways: map[string]report.Cell{"pgstore": {Writes: 3, Acknowledged: 1, Refused: 1, Unknown: 1, Violations: 1}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("link cut: %+v, want %+v", got, want)
	}
	if w := f.Ways["pgstore"]; w.Writes != 6 || w.Acknowledged != 2 || w.ClaimLongest < 1 || w.Violations["I1"] != 1 {
		t.Errorf("pgstore: %+v", w)
	}
	if _, err := r.JSON(); err != nil {
		t.Error(err)
	}
}
