package relay

import (
	"strconv"
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/own"
)

// What is remembered is bounded, and what is forgotten for the newest is one
// ticket, not all.
func TestTicketsAreBounded(t *testing.T) {
	t.Parallel()
	var m memory
	for i := range mostTickets + 10 {
		m.rememberTicket("db", strconv.Itoa(i), own.Ticket{Seq: strconv.Itoa(i)})
		if want := min(i+1, mostTickets); len(m.tickets) != want {
			t.Fatalf("%d tickets behind the %dth, want %d", len(m.tickets), i+1, want)
		}
	}
	if m.ticket("db", strconv.Itoa(mostTickets+9)) == nil {
		t.Error("the newest ticket was forgotten")
	}
	m.rememberTicket("db", strconv.Itoa(mostTickets+9), own.Ticket{Seq: "another"})
	if got := m.ticket("db", strconv.Itoa(mostTickets+9)); got == nil || got.Seq != "another" || len(m.tickets) != mostTickets {
		t.Errorf("renewed: %v, of %d", got, len(m.tickets))
	}
}
