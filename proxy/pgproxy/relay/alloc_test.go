package relay

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/own"
)

// TestForwardPathAllocates nothing for a transaction of one prepared statement,
// fenced or not: what is read is looked at, and written, where it lies.
func TestForwardPathAllocates(t *testing.T) {
	for _, kind := range []gate.Kind{gate.Fast, gate.Slow, gate.Pass} {
		o := own.New("0")
		s := &session{Link: newRelaying(Config{}).link(), own: o, machine: gate.New(gate.ReadOnly)}
		s.affixes = own.NewAffixes(o, gate.ReadOnly, "ft1:x:1:h:i:orders", &own.Ticket{Seq: "1", Epoch: "2"})
		s.machine.Resolved(kind)
		s.machine.MayWrite()

		request := pgwire.AppendBind(nil, "", "P0_1", []byte("1"))
		request = append(request, 'D', 0, 0, 0, 6, 'P', 0)
		request = pgwire.AppendSync(pgwire.AppendExecute(request, ""))
		answer := []byte{'2', 0, 0, 0, 4, '3', 0, 0, 0, 4, '2', 0, 0, 0, 4, 'n', 0, 0, 0, 4, 'C', 0, 0, 0, 13}
		answer = append(answer, "UPDATE 1\x00Z\x00\x00\x00\x05I"...)
		if kind == gate.Pass {
			answer = answer[10:]
		}
		buffer := make([]byte, len(answer))
		n := testing.AllocsPerRun(500, func() {
			sp := s.judge(request)
			if sp.err != nil || sp.verdict.Do != gate.Forward || sp.to != len(request) {
				t.Fatalf("%+v, %v", sp.verdict, sp.err)
			}
			sp.release()
			copy(buffer, answer)
			r := s.sort(buffer, true)
			if r.err != nil || r.used != len(answer) || r.then != gate.None {
				t.Fatalf("%+v, %v", r, r.err)
			}
		})
		if n != 0 {
			t.Errorf("kind %d: %v allocations a transaction", kind, n)
		}
	}
}
