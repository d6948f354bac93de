// Package recall remembers what a store has seen: the states of keys, claimed
// tokens, and marks. All of it may be out of date, and is treated so.
package recall

import (
	"sync"

	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// maxKnown bounds how many keys a store remembers. A forgotten one costs its
// next write a request more.
const maxKnown = 1 << 14

// Keys remembers the state in which keys were last seen or left. It is only a
// guess: every request names the state that it is meant for. The zero value is
// ready for use.
type Keys struct {
	mu   sync.Mutex
	keys map[string]sighting
}

// sighting is a state together with the grant under which it was seen. Another
// grant looks for itself: an older holder may have written since.
type sighting struct {
	by    layout.Grant
	state layout.State
}

// Find returns the state in which a key was last seen under this grant.
func (k *Keys) Find(by layout.Grant, key string) (layout.State, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	seen, ok := k.keys[key]
	return seen.state, ok && seen.by == by
}

// State is Find whoever has seen it: what an ETag says does not depend on that.
func (k *Keys) State(key string) (layout.State, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	seen, ok := k.keys[key]
	return seen.state, ok
}

// Set remembers a state. Seen without a grant it does not take from a writer what
// he has seen.
func (k *Keys) Set(by layout.Grant, key string, state layout.State) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil {
		k.keys = map[string]sighting{}
	}
	old, there := k.keys[key]
	if by == (layout.Grant{}) && there && old.state == state {
		return
	}
	if !there {
		for old := range k.keys {
			if len(k.keys) < maxKnown {
				break
			}
			delete(k.keys, old)
		}
	}
	k.keys[key] = sighting{by, state}
}

// Forget forgets a key.
func (k *Keys) Forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.keys, key)
}
