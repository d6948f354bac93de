package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/report"
	"github.com/fenceproxy/fenceproxy/test/chaos/stage"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

// seedEnv is the seed of a run; without it each run has another one.
const seedEnv = "FENCE_CHAOS_SEED"

const (
	// roundLimit is how long one round lasts at most. Registers are new in each,
	// since the check of a register takes more than twice the time for twice the
	// writes.
	roundLimit = 60 * time.Second
	// shown is how many violations are told beside the report.
	shown = 10
	// orderLimit is how long the search for an order of a register may take.
	orderLimit = time.Minute
)

// campaign is a run of the test program: rounds on one stage, and their report.
type campaign struct {
	t      *testing.T
	dir    string
	seed   uint64
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
	t.Logf("%s=%d", seedEnv, seed)
	return &campaign{t: t, dir: dir, seed: seed, stage: stage.New(t, c), report: report.New(fmt.Sprintf("%s, seed %d", title, seed))}
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

// round runs one round and returns what was found in it.
func (c *campaign) round(r stage.Round) []check.Violation {
	c.t.Helper()
	c.rounds++
	r.Name = fmt.Sprintf("r%d", c.rounds)
	r.Seed = c.seed + uint64(c.rounds)
	result := c.stage.Run(r)
	found := result.Found
	for _, k := range result.Cases {
		found = append(found, k.All()...)
		found = append(found, c.ordered(k)...)
	}
	c.report.Add(result.Ops, found)
	return found
}

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

// end writes the report, and logs it.
func (c *campaign) end() {
	c.t.Helper()
	var text strings.Builder
	c.report.Print(&text)
	if err := os.WriteFile(filepath.Join(c.dir, "report.md"), []byte(text.String()), 0o600); err != nil {
		c.t.Error(err)
	}
	c.t.Log("\n" + text.String())
}

// plans are the resources of a round of the real thing. Those of one kind share
// their ways in, so that holders follow each other in different ones.
func plans(c stage.Config) (all []stage.Plan) {
	tables := []string{ways.PGStore, ways.PGStoreLean, ways.ProxyPgx}
	scripts := append(slices.Clone(tables), ways.ProxyPsql)
	objects := []string{ways.S3Store, ways.S3ProxyGo}
	commands := slices.Clone(objects)
	if c.AWS != "" {
		commands = append(commands, ways.S3ProxyAWS)
	}
	for _, p := range []stage.Plan{
		{Locks: stage.Etcd, Ways: scripts, Shared: true},
		{Locks: stage.Redis, Ways: tables, Shared: true},
		{Locks: stage.ZooKeeper, Ways: tables, Shared: true},
		{Locks: stage.Sentinel, Ways: tables},
		{Locks: stage.Redis, Ways: []string{ways.PGStore}},
		{Locks: stage.Etcd, Ways: []string{ways.PGStoreLean}},
		{Locks: stage.ZooKeeper, Ways: []string{ways.ProxyPgx}},
		{Locks: stage.Redis, Ways: []string{ways.ProxyPgx}},
		{Locks: stage.Redis, Ways: []string{ways.Triggers}},
		{Locks: stage.Sentinel, Ways: []string{ways.Triggers}},
		{Locks: stage.ZooKeeper, Ways: []string{ways.S3Store}},
		{Locks: stage.Redis, Ways: objects, Shared: true},
		{Locks: stage.Etcd, Ways: commands},
		{Locks: stage.Sentinel, Ways: []string{ways.S3ProxyGo}},
	} {
		if slices.Contains(c.Locks, p.Locks) {
			all = append(all, p)
		}
	}
	return all
}

// everything is the whole stage, for `make chaos`; without durationEnv it is what
// the tests of a change have time and processors for.
func everything(t *testing.T) stage.Config {
	t.Helper()
	c := stage.Config{Locks: []string{stage.Etcd, stage.Redis}}
	if os.Getenv(durationEnv) != "" {
		c.Locks = append(c.Locks, stage.Sentinel, stage.ZooKeeper)
		c.AWS = awsCommand(t)
	}
	return c
}

// awsCommand is the path of an aws command line that can name conditions, without
// which what it has read may be out of date when it writes; "" if there is none.
func awsCommand(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("aws")
	if err != nil || !ways.SupportsConditions(path) {
		t.Logf("no aws command line that knows --if-match: nothing is written by it")
		return ""
	}
	return path
}

// TestChaos: whatever happens to workers, networks, proxies and servers, no
// invariant is broken.
func TestChaos(t *testing.T) {
	total := durationOr(t, 10*time.Second)
	config := everything(t)
	c := newCampaign(t, "Chaos", config)
	defer c.end()
	for left := total; left > 0; left -= roundLimit {
		found := c.round(stage.Round{Lasts: min(left, roundLimit), Every: 150 * time.Millisecond, AtOnce: 5, Workers: 4, Hands: 10, Plans: plans(config)})
		for _, v := range found[:min(len(found), shown)] {
			t.Error(v)
		}
		if len(found) > 0 {
			break
		}
	}
	if c.report.Faults() < 10 || c.report.Writes() < 100 {
		t.Errorf("%d faults and %d writes are too few to tell anything", c.report.Faults(), c.report.Writes())
	}
}
