package layout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
)

// The model: one key, an old holder and a new one, and every order in which
// their requests may arrive, those included that arrive after everything else
// and those whose reply is lost. What may be sent and what became of it is
// decided by Decide and Settle, as in the store.

// design is a way to fence a key, or to fail at it.
type design struct {
	name string
	// contentHash: the ETag is that of the bytes; otherwise every write has
	// one of its own.
	contentHash bool
	// realDelete: a delete leaves nothing.
	realDelete bool
	// plain: a holder looks at the mark, then writes unconditionally.
	plain bool
	// sweep: somebody removes tombstones, each only if it is still there.
	sweep bool
	// oneToken: both holders are processes that share the new one's token.
	oneToken bool
}

func (d *design) grant(by int8) Grant {
	if d.oneToken {
		by = newer
	}
	return grants[by]
}

const (
	older, newer = 0, 1

	writeA, writeB, remove = 1, 2, 3 // 1 and 2: payloads

	maxSends  = 6 // in flight at once
	maxNonces = 8
)

// key is the object at the key; the zero key is absent.
type key struct {
	etag, op, by, nonce int8
}

type send struct {
	by, op, nonce, cond int8
	try                 int8 // of the same nonce
	in                  bool // in use
}

type phase int8

const (
	idle    phase = iota
	looked        // has seen the key, and not sent yet
	waiting       // for the reply
	unsure        // gave up waiting
)

type client struct {
	at            phase
	op, nonce     int8
	try           int8
	seen          key
	cond          int8
	reply         Reply
	ops, retries  int8 // left
	claimed       bool
	markSeen      int8
	landed, ended int8 // bits by nonce: was carried out; was reported as failed
}

type world struct {
	key      key
	mark     int8
	clients  [2]client
	flight   [maxSends]send
	next     int8 // next nonce
	touched  bool // the new holder has written the key
	violated string
}

var grants = [2]Grant{
	NewGrant(guard.Token{Resource: "orders", Number: 33, Mode: guard.Exclusive, Holder: "a", Issuer: "i"}, 0),
	NewGrant(guard.Token{Resource: "orders", Number: 34, Mode: guard.Exclusive, Holder: "b", Issuer: "i"}, 0),
}

var etags = func() (names [maxNonces + 16]string) {
	for i := 1; i < len(names); i++ {
		names[i] = fmt.Sprint("etag ", i)
	}
	return names
}()

func (d *design) state(k key) State {
	if k.etag == 0 {
		return State{}
	}
	kind := Live
	if k.op == remove {
		kind = Tombstone
	}
	return State{ETag: etags[k.etag], Header: d.grant(k.by).Header(kind, Nonce{byte(k.nonce)})}
}

// stored is what a request makes of the key.
func (d *design) stored(s send) key {
	k := key{etag: s.op, op: s.op, by: s.by, nonce: s.nonce}
	if !d.contentHash {
		k.etag = 8 + s.nonce
	}
	if s.op == remove && d.realDelete {
		return key{}
	}
	return k
}

func (d *design) steps(w world) []step[world] {
	var all []step[world]
	add := func(what string, after world) { all = append(all, step[world]{what, after}) }
	for by := range int8(2) {
		d.clientSteps(w, by, add)
	}
	for i, s := range w.flight {
		if s.in {
			d.land(w, i, add)
		}
	}
	if d.sweep && w.key.op == remove {
		swept := w
		swept.key = key{}
		add("the sweeper removes the tombstone", swept)
	}
	return all
}

func (d *design) land(w world, i int, add func(string, world)) {
	s := w.flight[i]
	w.flight[i] = send{}
	w.sort()
	if !d.plain && s.cond == w.key.etag { // refused for a reason of the server's own
		d.reply(w, s, Denied, fmt.Sprintf("request %d is turned away", s.nonce), add)
	}
	c := &w.clients[s.by]
	done := d.plain || s.cond == w.key.etag
	reply := Denied
	if done {
		reply = Accepted
		w.key = d.stored(s)
		switch bit := int8(1) << s.nonce; {
		case s.by == older && w.touched && !d.oneToken:
			w.violated = "a write of the old holder after one of the new (I1)"
		case c.landed&bit != 0:
			w.violated = "one write was carried out twice (I2)"
		case c.ended&bit != 0:
			w.violated = "a write that was reported as not applied (I2)"
		}
		c.landed |= 1 << s.nonce
		w.touched = w.touched || s.by == newer
	}
	d.reply(w, s, reply, fmt.Sprintf("request %d arrives: %v", s.nonce, done), add)
}

func (d *design) reply(w world, s send, reply Reply, what string, add func(string, world)) {
	c := &w.clients[s.by]
	if c.at != waiting || c.nonce != s.nonce || c.try != s.try {
		add(what+", nobody waits for the reply", w)
		return
	}
	c.reply = c.reply.Then(reply)
	d.settle(w, s.by, func(more string, w world) { add(what+", "+more, w) })
}

// clientSteps are what a holder may do next.
func (d *design) clientSteps(w world, by int8, add func(string, world)) {
	who := [2]string{"old", "new"}[by]
	c := &w.clients[by]
	if !c.claimed {
		if w.mark <= by+1 {
			w.mark = by + 1
			c.claimed = true
			add(who+" claims", w)
		}
		return
	}
	switch c.at {
	case idle:
		if c.ops == 0 {
			return
		}
		c.ops--
		for op := int8(writeA); op <= remove; op++ {
			next := w
			n := &next.clients[by]
			n.at, n.op, n.seen, n.markSeen = looked, op, w.key, w.mark
			add(fmt.Sprintf("%s wants %d and looks", who, op), next)
		}
	case looked:
		d.send(w, by, who, add)
	case waiting: // the reply is lost, or the request is still under way
		c.at = unsure
		add(who+" gives up waiting", w)
	case unsure:
		c.reply = c.reply.Then(Lost)
		d.settle(w, by, func(what string, w world) { add(who+" looks again, "+what, w) })
	}
}

func (d *design) send(w world, by int8, who string, add func(string, world)) {
	c := &w.clients[by]
	seen := c.seen
	if d.plain {
		if c.markSeen > by+1 {
			c.finish()
			add(who+" is refused", w)
			return
		}
	} else {
		cond, err := d.grant(by).Decide(d.state(seen), Wish{Delete: c.op == remove})
		switch {
		case err != nil:
			if by == newer || d.oneToken {
				w.violated = "the current holder was refused (I3): " + err.Error()
			}
			c.finish()
			add(who+" is refused", w)
			return
		case cond.Nothing, c.op == remove && d.realDelete && seen.etag == 0:
			w.touched = w.touched || by == newer
			c.finish()
			add(who+" finds nothing to do", w)
			return
		}
	}
	if c.try == 0 { // all sends of one write have one nonce, as in the store
		c.nonce = w.next
		w.next++
	}
	c.at, c.cond, c.reply = waiting, seen.etag, Denied
	w.put(send{by, c.op, c.nonce, c.cond, c.try, true})
	add(fmt.Sprintf("%s sends request %d", who, c.nonce), w)
}

func (w *world) put(s send) {
	for i := range w.flight {
		if !w.flight[i].in {
			w.flight[i] = s
			w.sort()
			return
		}
	}
	panic("too many requests in flight")
}

// sort makes worlds that differ only in the order of requests the same.
func (w *world) sort() {
	slices.SortFunc(w.flight[:], func(a, b send) int { return 8*int(b.nonce-a.nonce) + int(b.try-a.try) })
}

// settle is what a holder makes of a reply, or of none, and of another look.
func (d *design) settle(w world, by int8, add func(string, world)) {
	c := &w.clients[by]
	if d.plain || d.contentHash || d.realDelete { // their clients cannot tell
		c.finish()
		add("is done", w)
		return
	}
	bit := int8(1) << c.nonce
	fate := d.grant(by).Settle(Condition{ETag: etags[c.cond]}, Nonce{byte(c.nonce)}, c.reply, d.state(w.key))
	switch fate {
	case Applied:
		if c.landed&bit == 0 {
			w.violated = "a write that was reported as applied was not (I2)"
		}
	case Failed:
		if c.landed&bit != 0 {
			w.violated = "a write that was reported as not applied was (I2)"
		}
		if c.retries > 0 { // by what the look has seen
			again := w
			a := &again.clients[by]
			a.retries--
			a.try++
			a.at, a.seen = looked, w.key
			add("failed, tries again", again)
		}
		c.ended |= bit
	case Pending:
		if c.retries > 0 {
			again := w
			a := &again.clients[by]
			a.retries--
			a.at = waiting
			a.try++
			again.put(send{by, c.op, c.nonce, c.cond, a.try, true})
			add("pending, sends the same again", again)
		}
	case Unknown:
	}
	c.finish()
	add("ends", w)
}

func (c *client) finish() {
	c.at, c.op, c.try, c.seen, c.cond, c.reply, c.markSeen = idle, 0, 0, key{}, 0, Lost, 0
}

func (d *design) explore(start world) (worlds int, trace []string) {
	return explore(start, d.steps, func(w world) string { return w.violated })
}

// program is a start: nothing at the key, an old holder and a new one with so
// many operations and repeated sends each.
func program(oldOps, oldRetries, newOps, newRetries int8) world {
	return world{clients: [2]client{{ops: oldOps, retries: oldRetries}, {ops: newOps, retries: newRetries}}}
}

// after is w with the old holder's first write done.
func (d *design) after(op int8, w world) world {
	w.mark, w.clients[older].claimed, w.next = 1, true, 1
	w.key = d.stored(send{by: older, op: op})
	return w
}

func TestModelOfFramedLayout(t *testing.T) {
	t.Parallel()
	for _, d := range []*design{{name: "two tokens"}, {name: "one token", oneToken: true}} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			d.sound(t)
		})
	}
}

func (d *design) sound(t *testing.T) {
	t.Helper()
	for _, start := range []world{
		program(1, 0, 2, 1), program(2, 0, 1, 0), program(1, 1, 1, 1),
		d.after(writeA, program(1, 1, 2, 0)), d.after(remove, program(1, 0, 2, 0)),
	} {
		worlds, trace := d.explore(start)
		if trace != nil {
			t.Errorf("after %d worlds:\n  %s", worlds, strings.Join(trace, "\n  "))
		}
		if worlds < 1000 {
			t.Errorf("only %d worlds were looked at", worlds)
		}
		t.Logf("%d worlds", worlds)
	}
}

// The same walk finds what is wrong with designs that look right.
func TestModelFindsBrokenDesigns(t *testing.T) {
	t.Parallel()
	for _, d := range []*design{
		{name: "HEAD, then If-Match on a content hash", contentHash: true},
		{name: "unique ETag, real delete", realDelete: true},
		{name: "fence object, plain PUT", plain: true},
		{name: "tombstones swept without a time bound", sweep: true},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			worlds, trace := d.explore(d.after(writeA, program(1, 0, 2, 0)))
			if trace == nil {
				t.Fatalf("found nothing wrong in %d worlds", worlds)
			}
			if !strings.Contains(trace[len(trace)-1], "(I1)") {
				t.Errorf("found something else: %s", trace[len(trace)-1])
			}
			t.Logf("%d worlds:\n  %s", worlds, strings.Join(trace, "\n  "))
		})
	}
}
