package layout

import "slices"

// step is one thing that can happen, and the world after it.
type step[W comparable] struct {
	what  string
	after W
}

// explore walks through everything that can happen and returns how many worlds
// there are, and the way to the first that is violated.
func explore[W comparable](start W, steps func(W) []step[W], violated func(W) string) (worlds int, trace []string) {
	type from struct {
		world W
		what  string
	}
	seen := map[W]from{start: {}}
	for queue := []W{start}; len(queue) > 0; queue = queue[1:] {
		for _, s := range steps(queue[0]) {
			if _, known := seen[s.after]; known {
				continue
			}
			seen[s.after] = from{queue[0], s.what}
			what := violated(s.after)
			if what == "" {
				queue = append(queue, s.after)
				continue
			}
			trace = []string{what}
			for w := s.after; w != start; w = seen[w].world {
				trace = append(trace, seen[w].what)
			}
			slices.Reverse(trace)
			return len(seen), trace
		}
	}
	return len(seen), nil
}
