package relay

import (
	"bytes"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/stream"
)

// relayTexts are what a fuzzed client's statements are. The last one is only
// sent in messages behind which Sync comes.
var relayTexts = []string{
	"SELECT 1", "INSERT INTO t VALUES (1)", "BEGIN", "COMMIT", "ROLLBACK", "FAIL", "SELEC ", "SELECT big", "NOTIFY c", "SET a = 1", "",
	"SELECT 1; INSERT INTO t VALUES (1)", "SAVEPOINT s", "COPY t TO STDOUT", "DEALLOCATE ALL", "VACUUM t", "BEGIN; INSERT INTO t VALUES (1)",
	"INSERT INTO t VALUES (1)", "DO 'x'",
}

// clientStream is the messages that a program says.
func clientStream(program []byte) []byte {
	var out []byte
	add := func(messages ...pgproto3.FrontendMessage) {
		for _, m := range messages {
			var err error
			if out, err = m.Encode(out); err != nil {
				panic(err)
			}
		}
	}
	names := []string{"", "a"}
	for _, op := range program[:min(len(program), 40)] {
		kind, arg := int(op%12), int(op/12)
		text, name := relayTexts[arg%len(relayTexts)], names[arg%2]
		single := strings.ReplaceAll(strings.ReplaceAll(text, "; ", " "), "DO 'x'", "SELECT 1")
		switch kind {
		case 0, 1:
			add(&pgproto3.Query{String: text})
		case 2, 3:
			add(&pgproto3.Parse{Query: single}, &pgproto3.Bind{}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{})
		case 4:
			add(&pgproto3.Parse{Query: single}, &pgproto3.Bind{}, &pgproto3.Execute{})
		case 5:
			add(&pgproto3.Parse{Name: "a", Query: single}, &pgproto3.Bind{PreparedStatement: "a", DestinationPortal: name})
		case 6:
			add(&pgproto3.Bind{PreparedStatement: name, Parameters: [][]byte{bytes.Repeat([]byte("p"), stream.BufferSize+arg<<8)}}, &pgproto3.Execute{MaxRows: 1})
		case 7:
			add(&pgproto3.Execute{Portal: name}, &pgproto3.Close{ObjectType: "SP"[arg%2], Name: "a"})
		case 8:
			add(&pgproto3.Sync{})
		case 9:
			add(&pgproto3.Sync{}, &pgproto3.Query{String: "COPY t FROM STDIN"})
			add(&pgproto3.CopyData{Data: bytes.Repeat([]byte("c"), arg<<10)}, &pgproto3.CopyDone{})
		case 10:
			add(&pgproto3.Sync{}, &pgproto3.FunctionCall{})
		case 11:
			add(&pgproto3.Flush{}, &pgproto3.Describe{ObjectType: 'S', Name: "a"})
		}
	}
	add(&pgproto3.Sync{}, &pgproto3.Query{String: "ROLLBACK"}, &pgproto3.Query{String: "LISTEN end"})
	return out
}

// lastWords are what comes last, unless something is garbled.
var lastWords = []byte("C\x00\x00\x00\x0bLISTEN\x00Z\x00\x00\x00\x05I")

// direct is what the client gets without a proxy.
func direct(stream []byte, token string) (want []byte) {
	return newStandIn(token, false).direct(stream)
}

// direct is what one like it answers.
func (s *standIn) direct(stream []byte) (want []byte) {
	server := newStandIn(s.token, false)
	server.version = s.version
	want = server.greeting()
	frames(stream, func(kind byte, body []byte) bool {
		want = append(want, server.take(kind, body)...)
		return true
	})
	return want
}

func saysLast(got []byte) bool { return bytes.HasSuffix(got, lastWords) }

// garble changes bytes of a stream: each two of a recipe are where and what.
func garble(stream, recipe []byte) []byte {
	stream = bytes.Clone(stream)
	for ; len(recipe) >= 3 && len(stream) > 0; recipe = recipe[3:] {
		stream[(int(recipe[0])<<8|int(recipe[1]))%len(stream)] ^= recipe[2]
	}
	return stream
}

// writeCut writes in segments of random sizes up to most; of what is long, only
// stretches.
func writeCut(conn net.Conn, b []byte, cuts *rand.Rand, most int) {
	for i := 1; len(b) > 0; i++ {
		n := min(len(b), 1+cuts.IntN(most))
		if len(b) > 2<<10 && i%64 == 0 {
			n = min(len(b), 1+cuts.IntN(2*stream.BufferSize))
		}
		if _, err := conn.Write(b[:n]); err != nil {
			return
		}
		b = b[n:]
	}
}

// FuzzRelay: whatever the two sides say, however their bytes are cut, a session
// comes to an end and takes little memory, and nothing is committed unchecked.
// Where nothing is garbled the client gets what it gets without a proxy, byte by
// byte.
func FuzzRelay(f *testing.F) {
	everything := make([]byte, 0, 64)
	for i := range byte(64) {
		everything = append(everything, i*37)
	}
	for kind := range byte(4) {
		f.Add([]byte{24, 2, 14, 38, 2, 62, 9, 98, 0, 36}, uint64(kind), kind, []byte(nil), []byte(nil))
		f.Add(everything, uint64(kind)<<8, kind, []byte(nil), []byte(nil))
		f.Add(everything, uint64(kind)<<8|0x4001, kind, []byte(nil), []byte(nil))
		f.Add(everything, uint64(0x10200), kind, []byte{0, 1, 0x80, 0, 70, 4}, []byte{'S', 2, 8, 'Q', 4, 1})
	}
	for seed := range uint64(8) { // what the proxy adds must not come into the middle of a message
		f.Add([]byte{249}, 0x100|seed, byte(3), []byte(nil), []byte(nil))
	}
	servers := [2]*relaying{newRelaying(Config{Untokened: gate.Allow}), newRelaying(Config{Untokened: gate.ReadOnly})}
	f.Fuzz(func(t *testing.T, program []byte, seed uint64, kind byte, up, down []byte) {
		token, stale := "", kind%4 == 3
		if kind%4 >= 2 {
			token = "ft1:x:1:h:i:r"
		}
		stream := clientStream(program)
		if seed>>1%2 == 0 {
			stream = append(stream, 'X', 0, 0, 0, 4) // what comes before is answered all the same
		}
		stream = garble(stream, up)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		most := []int{1, 9, 1 << 10, 1 << 16}[seed>>8%4]
		drain, server := make(chan struct{}), newStandIn(token, stale)
		r := startRelayed(t, servers[min(kind%4, 1)], server, down, seed, most, drain)
		written := make(chan struct{})
		go func() {
			defer close(written)
			writeCut(r.client, stream, rand.New(rand.NewPCG(seed, 2)), most)
		}()
		switch {
		case len(up) < 3 && len(down) < 3 && stale:
			r.await(testLimit, saysLast)
			if got := r.received(); !saysLast(got) {
				t.Errorf("the refused client gets\n %q", short(got))
			}
			r.finish(t, testLimit)
		case len(up) < 3 && len(down) < 3:
			wantDirect(t, r, direct(stream, token))
			r.finish(t, testLimit)
		default:
			if seed>>16%2 == 1 {
				close(drain)
			}
			r.await(2*time.Millisecond, func(got []byte) bool { return len(got) >= int(seed>>17%(1<<12)) })
			r.finish(t, time.Millisecond)
		}
		<-written
		if token != "" && server.unfenced > 0 {
			t.Errorf("%d transactions were committed unchecked", server.unfenced)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%d bytes for a stream of %d", used, len(stream))
		}
	})
}

// wantDirect wants the client to get the same as without a proxy, unless that
// refuses a statement as one that it cannot fence.
func wantDirect(t *testing.T, r *relayed, want []byte) {
	t.Helper()
	r.await(testLimit, saysLast)
	got := r.received()
	if !bytes.Contains(got, []byte("CTK007\x00")) && !bytes.Equal(got, want) {
		t.Fatalf("the client gets\n %q\nand without a proxy\n %q", short(got), short(want))
	}
}

// short is a transcript without its long values.
func short(b []byte) []byte {
	for _, c := range []string{"x", "c", "p"} {
		b = bytes.ReplaceAll(b, []byte(strings.Repeat(c, stream.BufferSize)), []byte("..."+c))
	}
	return b
}
