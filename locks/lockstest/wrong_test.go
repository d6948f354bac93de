package lockstest

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fenceproxy/fenceproxy/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// beyond are the cases that need a real link: the service in memory has none.
var beyond = []string{
	"replies/", "renewals/", "hang/", "cancel/anywhere", "lost/service hangs", "lost/waiter's service hangs", "release/reaches the service later",
}

// failures runs the suite against a service and returns the cases that fail,
// each with why.
func failures(t *testing.T, f flaws, patience time.Duration, only []string) (failed []string) {
	t.Helper()
	var names []string
	backend := newService(f).backend(patience)
	for _, p := range parts(backend) {
		for _, c := range p.cases {
			name := p.name + "/" + c.name
			begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
			if slices.ContainsFunc(beyond, begins) || only != nil && !slices.ContainsFunc(only, begins) {
				continue
			}
			names = append(names, name)
			var why []string
			st := &stage{TB: t, tell: func(what string) { why = append(why, what) }}
			st.run(func() { c.run(newFixture(st, backend)) })
			if why != nil {
				failed = append(failed, name+": "+why[0])
			}
		}
	}
	if len(names) == 0 {
		t.Fatalf("no case begins with one of %q", only)
	}
	return failed
}

func TestSoundPasses(t *testing.T) {
	t.Parallel()
	for _, failure := range failures(t, flaws{}, patience, nil) {
		t.Error(failure)
	}
}

// The services below are wrong, each in one way, and each must be caught by all
// the cases that are named.
func TestWrongIsCaught(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]struct {
		flaws
		by []string
	}{
		"readers overtake waiting writers": {
			flaws{next: func(queue []*spot, i int) bool {
				return !slices.ContainsFunc(queue, func(other *spot) bool {
					return other != queue[i] && excludes(other.token, queue[i].token) &&
						(isGranted(other) || queue[i].token.Mode == guard.Exclusive && slices.Index(queue, other) < i)
				})
			}},
			[]string{"queue/first", "queue/waiter", "schedules/"},
		},
		"the last is first": {
			flaws{next: func(queue []*spot, i int) bool {
				return !slices.ContainsFunc(queue, func(other *spot) bool {
					return other != queue[i] && excludes(other.token, queue[i].token) && (isGranted(other) || slices.Index(queue, other) > i)
				})
			}},
			[]string{"queue/first", "schedules/"},
		},
		"a writer beside readers": {
			flaws{next: func(queue []*spot, i int) bool { return queue[0].token.Mode == guard.Shared || i == 0 }},
			[]string{"modes/shared", "many/", "queue/", "schedules/"},
		},
		"numbers repeat":         {flaws{number: func(last int64) int64 { return max(last, 1) }}, []string{"modes/exclusive", "order/over releases", "many/", "schedules/"}},
		"numbers fall":           {flaws{number: func(last int64) int64 { return cmp.Or(last, 1<<20) - 1 }}, []string{"modes/exclusive", "order/over releases", "order/over a crash", "do/", "schedules/"}},
		"Lost never fires":       {flaws{neverLost: true}, []string{"lost/broken while held", "order/over a crash", "schedules/"}},
		"Lost fires too late":    {flaws{lateLost: true}, []string{"lost/service is gone", "schedules/"}},
		"cancelled ones wait on": {flaws{keepsCancelled: true}, []string{"cancel/waiting", "queue/waiter", "schedules/"}},
		"released ones stay":     {flaws{keepsReleased: true}, []string{"modes/", "release/with a ctx", "do/", "schedules/"}},
		"crashed ones stay":      {flaws{keepsCrashed: true}, []string{"order/over a crash", "lost/service is gone", "release/without a service", "schedules/"}},
		"a release frees others": {flaws{freesOthers: true}, []string{"release/twice", "release/next"}},
		"Lost stays open":        {flaws{silentRelease: true}, []string{"release/twice"}},
		"shared is exclusive":    {flaws{sharedIsExclusive: true}, []string{"modes/shared", "queue/", "schedules/"}},
		"a try overtakes":        {flaws{tryOvertakes: true}, []string{"schedules/", "queue/first"}},
		"a try waits":            {flaws{tryWaits: true}, []string{"modes/exclusive", "names/"}},
		"one holder":             {flaws{oneHolder: true}, []string{"modes/not re-entrant", "schedules/"}},
		"broken ones wait on":    {flaws{brokenWaits: true}, []string{"lost/broken while waiting"}},
		"lease and error":        {flaws{bothOnCancel: true}, []string{"cancel/waiting", "schedules/"}},
		"names are paths":        {flaws{name: path.Clean}, []string{"names/nasty"}},
		"names are one segment":  {flaws{name: func(r string) string { r, _, _ = strings.Cut(r, "/"); return r }}, []string{"names/nasty", "names/neighbours"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, by := range wrong.by {
				failed := failures(t, wrong.flaws, time.Second, []string{by})
				for again := 0; by == "schedules/" && len(failed) == 0 && again < 5; again++ {
					failed = failures(t, wrong.flaws, time.Second, []string{by}) // others, by chance
				}
				if len(failed) == 0 {
					t.Errorf("no case of %q fails", by)
				}
				for _, failure := range failed {
					t.Log(failure)
				}
			}
		})
	}
}
