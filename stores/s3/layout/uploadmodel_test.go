package layout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
)

// The model of an upload that two processes share: both complete it under the
// token that it was begun under, and write the key besides; a newer holder writes
// the key and ends the upload. Requests arrive in every order, late ones and
// repeated ones included, and replies are lost.

// flaw is a way to get it wrong.
type flaw struct {
	name string
	// spentIsDenied: that the upload is gone is taken for "it was not written".
	spentIsDenied bool
	// blind: a completion names no state.
	blind bool
	// restarts: the server lets an upload be completed again.
	restarts bool
}

const (
	sharedNonce = 1 // that of the upload

	complete, put = 1, 2
)

// oldest is whose object is there before anybody of the model does anything.
const oldest = 2

var uploadGrants = [3]Grant{
	grants[older], grants[newer],
	NewGrant(guard.Token{Resource: "orders", Number: 32, Mode: guard.Exclusive, Holder: "c", Issuer: "i"}, 0),
}

// at is what is at the key; the zero at is absent.
type at struct{ by, nonce int8 }

type letter struct {
	from, call, op, nonce, try int8
	cond                       at
	in                         bool
}

type process struct {
	at           phase
	call         int8 // number of the one that it does, or has done
	op, nonce    int8
	try          int8
	seen         at
	reply        Reply
	ops, retries int8
	mine         bool // a request of this call was carried out
	ended        int8 // bits of the calls that were reported as not applied
}

type uploadWorld struct {
	key      at
	open     bool // the upload is there
	done     bool // it was completed
	newer    bool // the new holder has written
	procs    [3]process
	flight   [maxSends]letter
	next     int8
	violated string
}

// tokenOf returns whose token a process has: the first two share one.
func tokenOf(proc int8) int8 {
	if proc == 2 {
		return newer
	}
	return older
}

func (k at) state() State {
	if k == (at{}) {
		return State{}
	}
	return State{ETag: fmt.Sprint(k), Header: uploadGrants[k.by].Header(Live, Nonce{byte(k.nonce)})}
}

func (f *flaw) steps(w uploadWorld) []step[uploadWorld] {
	var all []step[uploadWorld]
	add := func(what string, after uploadWorld) { all = append(all, step[uploadWorld]{what, after}) }
	for p := range int8(3) {
		f.act(w, p, add)
	}
	for i, l := range w.flight {
		if l.in {
			f.land(w, i, add)
		}
	}
	if w.open {
		ended := w
		ended.open = false
		add("somebody ends the upload", ended)
	}
	return all
}

// act is what a process may do next.
func (f *flaw) act(w uploadWorld, n int8, add func(string, uploadWorld)) {
	p := &w.procs[n]
	switch p.at {
	case idle:
		if p.ops == 0 {
			return
		}
		p.ops--
		p.call++
		for _, op := range []int8{complete, put} {
			if op == complete && tokenOf(n) == newer {
				continue
			}
			next := w
			q := &next.procs[n]
			q.op, q.seen, q.mine = op, w.key, false
			if op == complete && w.key == (at{older, sharedNonce}) {
				q.finish() // it was completed before: done
				add(fmt.Sprintf("%d finds the upload completed", n), next)
				continue
			}
			q.at = looked
			add(fmt.Sprintf("%d wants %d and looks", n, op), next)
		}
	case looked:
		if _, err := uploadGrants[tokenOf(n)].Decide(p.seen.state(), Wish{}); err != nil {
			if tokenOf(n) == newer {
				w.violated = "the current holder was refused (I3)"
			}
			p.finish()
			add(fmt.Sprintf("%d is refused", n), w)
			return
		}
		if p.try == 0 {
			p.nonce = sharedNonce
			if p.op == put {
				p.nonce = w.next
				w.next++
			}
		}
		p.at, p.reply = waiting, Denied
		w.post(letter{n, p.call, p.op, p.nonce, p.try, p.seen, true})
		add(fmt.Sprintf("%d sends request %d", n, p.nonce), w)
	case waiting:
		p.at = unsure
		add(fmt.Sprintf("%d gives up waiting", n), w)
	case unsure:
		p.reply = p.reply.Then(Lost)
		f.settle(w, n, func(what string, w uploadWorld) { add(fmt.Sprintf("%d looks again, %s", n, what), w) })
	}
}

func (w *uploadWorld) post(l letter) {
	i := slices.IndexFunc(w.flight[:], func(l letter) bool { return !l.in })
	w.flight[i] = l
	w.sort()
}

func (w *uploadWorld) sort() {
	slices.SortFunc(w.flight[:], func(a, b letter) int {
		return 64*int(b.nonce-a.nonce) + 8*int(b.from-a.from) + int(b.try-a.try)
	})
}

func (f *flaw) land(w uploadWorld, i int, add func(string, uploadWorld)) {
	l := w.flight[i]
	w.flight[i] = letter{}
	w.sort()
	reply := Denied
	switch {
	case l.op == complete && !w.open:
		reply = Spent
	case l.cond == w.key || f.blind && l.op == complete:
		reply = Accepted
		f.carryOut(&w, l)
	}
	p := &w.procs[l.from]
	if p.at != waiting || p.call != l.call || p.try != l.try {
		add(fmt.Sprintf("request %d of %d arrives late", l.nonce, l.from), w)
		return
	}
	if f.spentIsDenied && reply == Spent {
		reply = Denied
	}
	p.reply = p.reply.Then(reply)
	f.settle(w, l.from, func(what string, w uploadWorld) {
		add(fmt.Sprintf("request %d of %d arrives: %d, %s", l.nonce, l.from, reply, what), w)
	})
}

func (f *flaw) carryOut(w *uploadWorld, l letter) {
	p := &w.procs[l.from]
	switch {
	case tokenOf(l.from) == older && w.newer:
		w.violated = "a write of the old holder after one of the new (I1)"
	case l.op == complete && w.done:
		w.violated = "one upload was written twice (I2)"
	case p.ended&(1<<l.call) != 0:
		w.violated = "a write that was reported as not applied (I2)"
	}
	nonce := l.nonce
	if l.op == complete {
		nonce = sharedNonce // it is in part 1
		w.done = true
		w.open = f.restarts
	}
	w.key = at{tokenOf(l.from), nonce}
	w.newer = w.newer || tokenOf(l.from) == newer
	if p.call == l.call {
		p.mine = true
	}
}

func (f *flaw) settle(w uploadWorld, n int8, add func(string, uploadWorld)) {
	p := &w.procs[n]
	was := p.op == put && p.mine || p.op == complete && w.done
	switch uploadGrants[tokenOf(n)].Settle(Condition{ETag: p.seen.state().ETag}, Nonce{byte(p.nonce)}, p.reply, w.key.state()) {
	case Applied:
		if !was {
			w.violated = "a write that was reported as applied was not (I2)"
		}
	case Failed:
		if p.mine || (p.reply == Spent || f.spentIsDenied && !w.open) && w.done {
			w.violated = "a write that was reported as not applied was (I2)"
		}
		if p.retries > 0 && p.reply != Spent {
			again := w
			a := &again.procs[n]
			a.retries--
			a.try++
			a.at, a.seen = looked, w.key
			add("failed, tries again", again)
		}
		p.ended |= 1 << p.call
	case Pending:
		if p.retries > 0 {
			again := w
			a := &again.procs[n]
			a.retries--
			a.try++
			a.at = waiting
			again.post(letter{n, p.call, p.op, p.nonce, a.try, p.seen, true})
			add("pending, sends the same again", again)
		}
	case Unknown:
	}
	p.finish()
	add("ends", w)
}

func (p *process) finish() {
	p.at, p.op, p.nonce, p.try, p.seen, p.reply, p.mine = idle, 0, 0, 0, at{}, Lost, false
}

func sharedUpload(key at, first, newHolder, retries int8) uploadWorld {
	return uploadWorld{
		key: key, open: true, next: sharedNonce + 1,
		procs: [3]process{{ops: first, retries: retries}, {ops: 1, retries: retries}, {ops: newHolder}},
	}
}

func violatedUpload(w uploadWorld) string { return w.violated }

func TestModelOfSharedUpload(t *testing.T) {
	t.Parallel()
	const another = 7 // nonce
	for name, start := range map[string]uploadWorld{
		"over nothing":         sharedUpload(at{}, 1, 1, 1),
		"over one's own":       sharedUpload(at{older, another}, 1, 1, 1),
		"over an older object": sharedUpload(at{oldest, another}, 1, 1, 1),
		"twice by one":         sharedUpload(at{older, another}, 2, 0, 1),
		"twice, and newer":     sharedUpload(at{}, 2, 1, 0),
		"repeated requests":    sharedUpload(at{oldest, another}, 1, 0, 2),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worlds, trace := explore(start, (&flaw{}).steps, violatedUpload)
			if trace != nil {
				t.Errorf("after %d worlds:\n  %s", worlds, strings.Join(trace, "\n  "))
			}
			if worlds < 1000 {
				t.Errorf("only %d worlds were looked at", worlds)
			}
			t.Logf("%d worlds", worlds)
		})
	}
}

// The same walk finds what is wrong with uploads that are shared another way.
func TestModelFindsBrokenUploads(t *testing.T) {
	t.Parallel()
	for f, want := range map[*flaw]string{
		{name: "gone is not applied", spentIsDenied: true}:              "reported as not applied was",
		{name: "complete without a condition", blind: true}:             "(I1)",
		{name: "an upload that can be completed again", restarts: true}: "written twice",
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			worlds, trace := explore(sharedUpload(at{}, 2, 1, 1), f.steps, violatedUpload)
			if trace == nil {
				t.Fatalf("found nothing wrong in %d worlds", worlds)
			}
			if !strings.Contains(trace[len(trace)-1], want) {
				t.Errorf("found something else: %s", trace[len(trace)-1])
			}
			t.Logf("%d worlds:\n  %s", worlds, strings.Join(trace, "\n  "))
		})
	}
}
