// Package labels bounds how many values a label of a metric has, where clients
// choose them.
package labels

import "sync"

// Other is the value that stands for all beyond the bound.
const Other = "other"

// Bounded are the values of a label, those that came first. Make it with New; it
// is safe for use by many goroutines.
type Bounded struct {
	most int

	mu    sync.Mutex
	known map[string]struct{}
}

// New returns the values of a label that are at most that many, beside Other.
func New(most int) *Bounded { return &Bounded{most: most, known: make(map[string]struct{})} }

// Of is the label for a value: itself, or Other if there are too many already.
func (b *Bounded) Of(value string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.known[value]; !known {
		if len(b.known) >= b.most {
			return Other
		}
		b.known[value] = struct{}{}
	}
	return value
}
