package s3store

import (
	"sync"

	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// maxKnown bounds how many keys a store remembers. A forgotten one costs its
// next write a request more.
const maxKnown = 1 << 14

// known remembers the state in which keys were last seen or left. It is only a
// guess: every request names the state that it is meant for. The zero value is
// ready for use.
type known struct {
	mu   sync.Mutex
	keys map[string]sighting
}

// sighting is a state together with the grant under which it was seen. Another
// grant looks for itself: an older holder may have written since.
type sighting struct {
	by    layout.Grant
	state layout.State
}

func (k *known) find(by layout.Grant, key string) (layout.State, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	seen, ok := k.keys[key]
	return seen.state, ok && seen.by == by
}

// state is find whoever has seen it: what an ETag says does not depend on that.
func (k *known) state(key string) (layout.State, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	seen, ok := k.keys[key]
	return seen.state, ok
}

func (k *known) set(by layout.Grant, key string, state layout.State) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil {
		k.keys = map[string]sighting{}
	}
	if _, there := k.keys[key]; !there {
		for old := range k.keys {
			if len(k.keys) < maxKnown {
				break
			}
			delete(k.keys, old)
		}
	}
	k.keys[key] = sighting{by, state}
}

func (k *known) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.keys, key)
}
