package chaos_test

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/chaos/stage"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
)

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
		{Locks: stage.Redis, Ways: []string{ways.ProxyPgx, ways.ProxyPooled}},
		{Locks: stage.Etcd, Ways: []string{ways.ProxyPooled}},
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

// roundLimit is how long one round lasts at most. Registers are new in each, since
// the check of a register takes more than twice the time for twice the writes.
const roundLimit = 45 * time.Second

// TestChaos: whatever happens to workers, networks, proxies and servers, no
// invariant is broken.
func TestChaos(t *testing.T) {
	total := durationOr(t, 10*time.Second)
	config := everything(t)
	c := newCampaign(t, "Chaos", config)
	defer c.end()
	// Two, at least, if there is time: a standby there is in every other one.
	lasts := min(roundLimit, max(20*time.Second, total/2), total)
	every := 300 * time.Millisecond
	if total >= 10*time.Minute { // faults enough there will be, and there is time for writes
		every = 700 * time.Millisecond
	}
	for end := time.Now().Add(total); time.Until(end) > 0 && c.ctx.Err() == nil; {
		found := c.round(stage.Round{
			Lasts: min(lasts, time.Until(end)), Every: every, AtOnce: 4, Workers: 4, Hands: 10,
			Plans: plans(config), Standby: c.rounds%2 == 1,
		})
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
