package chaos_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/plant"
	"github.com/fenceproxy/fenceproxy/test/chaos/stage"
)

// TestPlantedBugs: each hole in a fence is found within a minute. Those that have
// to be compiled are for `make chaos`.
func TestPlantedBugs(t *testing.T) {
	const (
		limit = 60 * time.Second // of rounds
		lasts = 5 * time.Second
	)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all := os.Getenv(durationEnv) != ""
	for _, hole := range plant.Holes() {
		if hole.In != plant.Nothing && !all {
			continue
		}
		t.Run(hole.Name, func(t *testing.T) {
			config := stage.Config{Locks: []string{stage.Redis}, Break: hole.SQL}
			switch program := hole.Build(t, root); hole.In {
			case plant.Worker:
				config.Worker = program
			case plant.Proxy:
				config.Proxy = program
			case plant.Nothing:
			}
			c := newCampaign(t, "Planted: "+hole.Name, config)
			defer c.end()
			plan := stage.Plan{Locks: stage.Redis, Ways: hole.Ways}
			for spent := lasts; ; spent += lasts {
				found := c.round(stage.Round{Lasts: lasts, Every: 150 * time.Millisecond, AtOnce: 3, Workers: 4, Hands: 5, Plans: []stage.Plan{plan, plan, plan}})
				if i := slices.IndexFunc(found, func(v check.Violation) bool {
					return v.Invariant == hole.Invariant || hole.Invariant == "" && slices.Contains(fatal, v.Invariant)
				}); i >= 0 {
					t.Logf("found within %v: %v", spent, found[i])
					return
				}
				if spent >= limit {
					t.Fatalf("not found within %v", limit)
				}
			}
		})
	}
}
