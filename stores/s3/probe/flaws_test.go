package probe_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3ref"
	"github.com/fenceproxy/fenceproxy/stores/s3/probe"
)

// flawed is a store and what a probe must say of it.
type flawed struct {
	flaws s3ref.Flaws
	// framed are the rows that the layout rests on and that must not be
	// honoured. Without any, the store must be found fit.
	framed []string
	// may are such rows that may be honoured or not, as chance has it.
	may []string
	// others are the rows that are only reported and must not be honoured.
	others []string
	// wide is a flaw that reaches everywhere: further rows may not be honoured.
	wide bool
}

// Where PutObject is sound and CompleteMultipartUpload is not, or the other way
// round, the sound one may win before the others begin.
var mixed = []string{"race/create-both", "race/swap-both"}

// conditionFlaws are stores that do not honour one condition.
var conditionFlaws = map[string]flawed{
	"none":      {others: []string{"etag/unique"}},
	"conflicts": {flaws: s3ref.Flaws{Conflicts: true}, others: []string{"etag/unique"}},
	"PutObject ignores If-None-Match": {
		flaws:  s3ref.Flaws{Ignores: []string{"PutObject If-None-Match"}},
		framed: []string{"PutObject/create-existing", "race/create-put"}, may: mixed, others: []string{"etag/unique"},
	},
	"PutObject ignores If-Match": {
		flaws:  s3ref.Flaws{Ignores: []string{"PutObject If-Match"}},
		framed: []string{"PutObject/swap-earlier", "race/swap-put"}, may: mixed, others: []string{"etag/unique"},
	},
	"PutObject If-Match creates": {
		flaws:  s3ref.Flaws{Ignores: []string{"PutObject If-Match absent"}},
		framed: []string{"PutObject/swap-absent"}, others: []string{"etag/unique"},
	},
	"PutObject has no If-None-Match": {
		flaws:  s3ref.Flaws{Unimplemented: []string{"PutObject If-None-Match"}},
		framed: []string{"PutObject/create-absent", "PutObject/create-existing", "race/create-put"}, wide: true,
	},
	"PutObject has no If-Match": {
		flaws:  s3ref.Flaws{Unimplemented: []string{"PutObject If-Match"}},
		framed: []string{"PutObject/swap-current", "PutObject/swap-earlier", "PutObject/swap-absent", "race/swap-put"}, wide: true,
	},
	"Complete ignores If-None-Match": {
		flaws:  s3ref.Flaws{Ignores: []string{"CompleteMultipartUpload If-None-Match"}},
		framed: []string{"CompleteMultipartUpload/create-existing", "race/create-complete"}, may: mixed, others: []string{"etag/unique"},
	},
	"Complete ignores If-Match": {
		flaws:  s3ref.Flaws{Ignores: []string{"CompleteMultipartUpload If-Match"}},
		framed: []string{"CompleteMultipartUpload/swap-earlier", "race/swap-complete"}, may: mixed, others: []string{"etag/unique"},
	},
	"Complete If-Match creates": {
		flaws:  s3ref.Flaws{Ignores: []string{"CompleteMultipartUpload If-Match absent"}},
		framed: []string{"CompleteMultipartUpload/swap-absent"}, others: []string{"etag/unique"},
	},
	"CopyObject ignores conditions": {
		flaws:  s3ref.Flaws{Ignores: []string{"CopyObject If-Match", "CopyObject If-None-Match", "CopyObject If-Match absent"}},
		others: []string{"etag/unique", "CopyObject/create-existing", "CopyObject/swap-earlier", "CopyObject/swap-absent"},
	},
	"deletes ignore conditions": {
		flaws: s3ref.Flaws{Ignores: []string{
			"DeleteObject If-Match", "DeleteObject If-Match absent", "DeleteObjects If-Match", "DeleteObjects If-Match absent",
		}},
		others: []string{"etag/unique", "DeleteObject/earlier", "DeleteObject/absent", "DeleteObjects/earlier", "DeleteObjects/absent"},
	},
	"GetObject ignores If-Match": {
		flaws:  s3ref.Flaws{Ignores: []string{"GetObject If-Match"}},
		others: []string{"etag/unique", "GetObject/if-match"},
	},
}

// otherFlaws are stores whose conditions look right, taken one by one.
var otherFlaws = map[string]flawed{
	"PutObject is not atomic": {
		flaws:  s3ref.Flaws{NotAtomic: []string{"PutObject"}},
		framed: []string{"race/create-put", "race/swap-put"}, may: mixed, others: []string{"etag/unique"},
	},
	"Complete is not atomic": {
		flaws:  s3ref.Flaws{NotAtomic: []string{"CompleteMultipartUpload"}},
		framed: []string{"race/create-complete", "race/swap-complete"}, may: mixed, others: []string{"etag/unique"},
	},
	"reads are stale": {
		flaws:  s3ref.Flaws{StaleReads: 300 * time.Millisecond},
		framed: []string{"read/after-write", "read/after-create"}, wide: true,
	},
	"conditions are stale": {
		flaws: s3ref.Flaws{StaleConditions: 300 * time.Millisecond},
		framed: []string{
			"PutObject/create-existing", "PutObject/swap-earlier",
			"CompleteMultipartUpload/create-existing", "CompleteMultipartUpload/swap-earlier",
		},
		wide: true,
	},
	"ETags are sizes": {
		flaws:  s3ref.Flaws{ETag: func(content []byte) string { return strconv.Itoa(len(content)) }},
		framed: []string{"etag/distinct", "PutObject/swap-earlier"}, wide: true,
	},
	"bodies that break off are kept": {
		flaws: s3ref.Flaws{KeepsCut: true}, framed: []string{"PutObject/cut"}, others: []string{"etag/unique"},
	},
	"ETags are unique": {flaws: s3ref.Flaws{ETag: func([]byte) string { return rand.Text() }}, others: []string{}},
}

// A store is refused for what it does not do and the layout rests on, and for
// nothing else; of the rest it is only reported.
func TestFlaws(t *testing.T) {
	t.Parallel()
	for _, table := range []map[string]flawed{conditionFlaws, otherFlaws} {
		for name, c := range table {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				testFlaw(t, c)
			})
		}
	}
}

func testFlaw(t *testing.T, c flawed) {
	t.Helper()
	server := s3ref.New(t, c.flaws)
	report := mustRun(t, refClient(t, server), probe.Config{Bucket: "bucket", Rounds: 1, Parallel: 4})
	got := not(report, true)
	for _, row := range c.framed {
		if !slices.Contains(got, row) {
			t.Errorf("%s is honoured", row)
		}
	}
	if !c.wide {
		for _, row := range got {
			if !slices.Contains(c.framed, row) && !slices.Contains(c.may, row) {
				t.Errorf("%s is not honoured", row)
			}
		}
		if diff := cmp.Diff(c.others, append([]string{}, not(report, false)...)); diff != "" {
			t.Errorf("others, not honoured (-want +got):\n%s", diff)
		}
	}
	err := report.Framed()
	if (err != nil) != (len(c.framed) > 0) || err != nil && !errors.Is(err, guard.ErrUnsupported) {
		t.Errorf("verdict: %v", err)
	}
	for _, row := range report.Rows {
		if row.Answer == "" || row.Asked == "" || row.Operation == "" {
			t.Errorf("row %+v", row)
		}
	}
	if keys := server.Keys(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}
