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
	last  layout.State // seen by anybody
	gone  bool         // it is in another state now, or may be
}

// Find returns the state in which a key was last seen under this grant.
func (k *Keys) Find(by layout.Grant, key string) (layout.State, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	seen, ok := k.keys[key]
	return seen.state, ok && seen.by == by
}

// Current is Find for whoever acts on the state: not if it is known, or likely, that the
// key is in another one by now.
func (k *Keys) Current(by layout.Grant, key string) (layout.State, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	seen, ok := k.keys[key]
	return seen.state, ok && seen.by == by && !seen.gone
}

// State is the state of an object in which anybody has last seen a key: what an ETag says
// does not depend on who.
func (k *Keys) State(key string) (layout.State, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	seen, ok := k.keys[key]
	return seen.last, ok && !seen.gone && !seen.last.Absent()
}

// Set remembers a state. Seen without a grant, under an older one, or under one of
// another resource than the key's, it does not take from a holder what he has seen: he
// would overwrite what he does not know of (I9).
func (k *Keys) Set(by layout.Grant, key string, state layout.State) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil {
		k.keys = map[string]sighting{}
	}
	now := sighting{by: by, state: state, last: state}
	old, there := k.keys[key]
	if there && (newer(old.by, by) || visits(by, old.by, state) || state.Absent() && elsewhere(by, old.by)) {
		now.by = old.by
		if !old.by.Wrote(state.Header) {
			now.state = old.state
		}
	}
	if !there {
		for old := range k.keys {
			if len(k.keys) < maxKnown {
				break
			}
			delete(k.keys, old)
		}
	}
	k.keys[key] = now
}

// newer reports whether a holder comes behind another one, or nobody.
func newer(a, b layout.Grant) bool {
	switch none := (layout.Grant{}); {
	case a == none:
		return false
	case b == none:
		return true
	case a.Token.Resource != b.Token.Resource:
		return false
	}
	return a.Generation > b.Generation || a.Generation == b.Generation && a.Token.Number > b.Token.Number
}

// visits reports whether a holder has looked at what belongs to the resource of another.
func visits(by, owner layout.Grant, state layout.State) bool {
	return owner != layout.Grant{} && by.Token.Resource != owner.Token.Resource &&
		state.Header.Resource == layout.DigestOf(owner.Token.Resource)
}

// elsewhere reports whether two holders are those of different resources.
func elsewhere(a, b layout.Grant) bool {
	none := layout.Grant{}
	return a != none && b != none && a.Token.Resource != b.Token.Resource
}

// Doubt says that a key may be in another state by now than it was seen in: it is not
// known what became of a write. That takes from nobody what he has seen.
func (k *Keys) Doubt(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if seen, ok := k.keys[key]; ok {
		seen.gone = true
		k.keys[key] = seen
	}
}

// Forget forgets a key whose state somebody has found to be another one. That takes from
// a newer holder as little as Set does.
func (k *Keys) Forget(by layout.Grant, key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old, there := k.keys[key]
	if there && (newer(old.by, by) || elsewhere(by, old.by)) {
		old.gone = true
		k.keys[key] = old
		return
	}
	delete(k.keys, key)
}
