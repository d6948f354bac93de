package chaos_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/report"
	"github.com/fenceproxy/fenceproxy/test/chaos/stage"
)

// seedEnv is the seed of a run; without it each run has another one.
const seedEnv = "FENCE_CHAOS_SEED"

const (
	// shown is how many violations are told beside the report.
	shown = 10
	// orderLimit is how long the search for an order of a register may take.
	orderLimit = time.Minute
	// stuckLimit is how long a round may take beside its faults: that a server does
	// not come back is noticed well before.
	stuckLimit = 10 * time.Minute
)

// campaign is a run of the test program: rounds on one stage, and their report.
type campaign struct {
	t      *testing.T
	ctx    context.Context // ends when somebody interrupts the run
	dir    string
	seed   uint64
	began  time.Time
	stage  *stage.Stage
	report *report.Report
	rounds int
}

func newCampaign(t *testing.T, title string, c stage.Config) *campaign {
	t.Helper()
	seed := rand.Uint64N(1 << 32)
	if text := os.Getenv(seedEnv); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedEnv, err)
		}
	}
	dir := t.ArtifactDir()
	c.Dir = dir
	if c.Proxy == "" {
		c.Proxy = built(t)
	}
	again := fmt.Sprintf("make chaos DURATION=%s SEED=%d ARGS='-run ^%s$'", cmp.Or(os.Getenv(durationEnv), "10s"), seed, t.Name())
	t.Log(again)
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	t.Cleanup(stop)
	began := time.Now()
	all := &campaign{t: t, ctx: ctx, dir: dir, seed: seed, began: began, stage: stage.New(t, c), report: report.New(title, seed, again)}
	all.report.Cannot = all.stage.Cannot()
	t.Logf("all servers run after %v", time.Since(began).Round(time.Second/10))
	return all
}

// built is the proxy, built for this test.
func built(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fenceproxy")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../cmd/fenceproxy").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// round runs one round and returns what was found in it. Histories in which
// nothing was found are removed.
func (c *campaign) round(r stage.Round) []check.Violation {
	c.t.Helper()
	c.rounds++
	r.Name = fmt.Sprintf("r%d", c.rounds)
	r.Seed = c.seed + uint64(c.rounds)
	alarm := time.AfterFunc(r.Lasts+stuckLimit, func() { panic("chaos: round " + r.Name + " does not end") })
	defer alarm.Stop()
	faults, writes, began := c.report.Faults(), c.report.Acknowledged(), time.Now()
	result := c.stage.Run(c.ctx, r)
	judged := time.Now()
	found := slices.Concat(result.Found, check.Halves(result.Cases))
	for _, k := range result.Cases {
		found = append(found, k.All()...)
		found = append(found, c.ordered(k)...)
	}
	c.report.Add(result.Ops, found)
	c.write()
	faults, writes = c.report.Faults()-faults, c.report.Acknowledged()-writes
	c.t.Logf("%s: %d faults, %d writes acknowledged (%.0f/s), %d violations; began in %v, workers ended in %v, settled in %v (%s), read in %v, judged in %v; in all %d faults, %d writes, %d violations within %v",
		r.Name, faults, writes, float64(writes)/time.Since(began).Seconds(), len(found),
		tenths(result.Began), tenths(result.Dismissed), tenths(result.Settled), result.Slowest, tenths(result.Known), tenths(time.Since(judged)),
		c.report.Faults(), c.report.Acknowledged(), len(c.report.Violations()), c.report.Lasted.Round(time.Second))
	if len(found) == 0 {
		if err := os.RemoveAll(result.Dir); err != nil {
			c.t.Error(err)
		}
	}
	return found
}

func tenths(d time.Duration) time.Duration { return d.Round(time.Second / 10) }

// ordered checks that a register is linearizable, and draws it if not.
func (c *campaign) ordered(k check.Case) []check.Violation {
	result, picture := k.Register(orderLimit)
	if result == porcupine.Ok {
		return nil
	}
	v := check.Violation{Invariant: "order", Resource: k.Resource, Way: "all", Text: "the register is not linearizable"}
	if result == porcupine.Unknown {
		v.Text = fmt.Sprintf("no order was found within %v", orderLimit)
	}
	path := filepath.Join(c.dir, k.Resource+".html")
	if err := picture.Draw(path); err != nil {
		c.t.Logf("draw %s: %v", path, err)
	} else {
		v.Text += ": " + path
	}
	return []check.Violation{v}
}

// write writes the report, for people and for programs, beside the histories and
// where the command that started this says. It is there after every round, however
// the run ends.
func (c *campaign) write() {
	c.t.Helper()
	c.report.Lasted = time.Since(c.began)
	var text strings.Builder
	c.report.Print(&text)
	figures, err := c.report.JSON()
	if err != nil {
		c.t.Error(err)
	}
	for _, dir := range c.folders() {
		for name, content := range map[string]string{".md": text.String(), ".json": string(figures)} {
			if err := os.WriteFile(dir+name, []byte(content), 0o600); err != nil {
				c.t.Error(err)
			}
		}
	}
}

// folders are where reports are written, each with the name of a file without its
// extension.
func (c *campaign) folders() []string {
	all := []string{filepath.Join(c.dir, "report")}
	if out := flag.Lookup("test.outputdir").Value.String(); out != "" {
		all = append(all, filepath.Join(out, strings.ReplaceAll(c.t.Name(), "/", "-")))
	}
	return slices.Compact(all)
}

// end logs the report.
func (c *campaign) end() {
	c.t.Helper()
	c.write()
	var text strings.Builder
	c.report.Print(&text)
	if c.ctx.Err() != nil && c.t.Context().Err() == nil {
		c.t.Log("the run was interrupted")
	}
	c.t.Log("\n" + text.String())
}
