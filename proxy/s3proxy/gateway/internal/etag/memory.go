package etag

import (
	"crypto/sha256"
	"fmt"
	"sync"
)

// MaxRemembered is how many parts a Memory remembers: more than one upload can have.
const MaxRemembered = 16 << 10

// Memory remembers under which ETags the parts of uploads were shown, so that a list of
// parts tells the same. It forgets the oldest, and what another process has shown it
// does not know: nothing depends on it. The zero value is ready for use.
type Memory struct {
	mu    sync.Mutex
	shown map[remembered]string
	ring  []remembered
	at    int
}

// remembered is the hash of an upload, a part's number and the store's ETag of it.
type remembered [16]byte

func partOf(upload string, number int, stored string) remembered {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", number, stored, upload))
	return remembered(sum[:16])
}

// Remember remembers that the ETag of a part, which is stored in the store, was shown.
func (m *Memory) Remember(upload string, number int, stored, shown string) {
	if shown == Part(number, stored) {
		return
	}
	part := partOf(upload, number, stored)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shown == nil {
		m.shown = make(map[remembered]string)
	}
	if _, again := m.shown[part]; !again {
		if len(m.ring) < MaxRemembered {
			m.ring = append(m.ring, part)
		} else {
			delete(m.shown, m.ring[m.at])
			m.ring[m.at] = part
			m.at = (m.at + 1) % MaxRemembered
		}
	}
	m.shown[part] = shown
}

// Part is what a part's ETag was shown as, as far as it is remembered.
func (m *Memory) Part(upload string, number int, stored string) string {
	part := partOf(upload, number, stored)
	m.mu.Lock()
	defer m.mu.Unlock()
	if shown, ok := m.shown[part]; ok {
		return shown
	}
	return Part(number, stored)
}
