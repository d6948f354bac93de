package chaos_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/plant"
	"github.com/fenceproxy/fenceproxy/test/chaos/stage"
)

// holes are those there is time for. One that has to be compiled takes most of a
// minute on two processors: a change's tests have none of them, a short run has the
// first one of each program and way in, and one of five minutes has all.
func holes(t *testing.T) []plant.Hole {
	t.Helper()
	total := durationOr(t, 0)
	seen := map[string]bool{}
	return slices.DeleteFunc(plant.Holes(), func(h plant.Hole) bool {
		if h.In == plant.Nothing || total >= 5*time.Minute {
			return false
		}
		key := fmt.Sprint(h.In, h.Ways[0])
		again := seen[key]
		seen[key] = true
		return again || total == 0
	})
}

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
	for _, hole := range holes(t) {
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
