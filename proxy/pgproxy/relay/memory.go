package relay

import (
	"sync"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/own"
)

// mostTickets bounds how many tickets are remembered; then any one makes way for
// the next.
const mostTickets = 4096

// memory is what sessions have found out that the next ones may try first. None
// of it is relied on: the server says whether it still holds, in one round trip
// that calls none of the fence's functions, which each new backend would compile.
type memory struct {
	mu      sync.Mutex
	tickets map[claimedIn]own.Ticket
}

// claimedIn is a token that was claimed in a database.
type claimedIn struct{ database, token string }

func (m *memory) ticket(database, token string) *own.Ticket {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, ok := m.tickets[claimedIn{database, token}]; ok {
		return &t
	}
	return nil
}

func (m *memory) rememberTicket(database, token string, t own.Ticket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tickets == nil {
		m.tickets = map[claimedIn]own.Ticket{}
	}
	key := claimedIn{database, token}
	if _, known := m.tickets[key]; !known && len(m.tickets) >= mostTickets {
		for other := range m.tickets {
			delete(m.tickets, other)
			break
		}
	}
	m.tickets[key] = t
}

func (m *memory) forgetTicket(database, token string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tickets, claimedIn{database, token})
}
