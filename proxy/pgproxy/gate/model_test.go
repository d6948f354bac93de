package gate

import (
	"fmt"
	"slices"
	"strings"
)

// word is a statement of the model's: what matters of it.
type word string

const (
	wWrite     word = "INSERT"
	wFail      word = "INSERT fails"
	wFree      word = "SET a = 1"
	wBegin     word = "BEGIN"
	wCommit    word = "COMMIT"
	wRollback  word = "ROLLBACK"
	wSavepoint word = "SAVEPOINT s"
	wBack      word = "ROLLBACK TO s"
	wCall      word = "CALL p()"
	wVacuum    word = "VACUUM"
	wTouch     word = "SET fence.token = ''"
	wForget    word = "DEALLOCATE ALL"
	wDrop      word = `DEALLOCATE "_fence_0"`
	wDropAll   word = "DO $$ DEALLOCATE ALL $$"
	wBad       word = "SELEC"
	wLock      word = "LOCK t"
)

var everyWord = []word{wWrite, wWrite, wWrite, wFail, wFree, wBegin, wBegin, wCommit, wCommit, wRollback, wSavepoint, wBack, wCall, wVacuum, wTouch, wForget, wDrop, wDropAll, wBad, wLock}

func (w word) exits() bool { return w == wCommit || w == wRollback || w == wBack }

// snaps reports whether a statement takes a snapshot when it is bound; SAVEPOINT
// does not, but that it does through the proxy is known.
func (w word) snaps() bool {
	return slices.Contains([]word{wWrite, wFail, wSavepoint, wCall, wVacuum, wDropAll}, w)
}

// toServer is a message to the model: the client's, or one of the prefixes.
type toServer struct {
	kind   byte
	name   string // of the statement
	portal string
	words  []word
	prefix Prefix
	suffix Suffix
	anew   bool
	parses int
	then   Then
}

// backend is a model of a Postgres backend, as far as transactions go: the
// extended protocol of 14 to 17.
type backend struct {
	block, failed, skip bool
	// Of the transaction:
	wrote, safe, saved, snapped bool
	statements                  map[string]word
	portals                     map[string]word
	prepared                    bool // the proxy's own statements
	stale                       bool // every check fails
	commits                     bool // CALL commits inside
	violation                   string
	out                         []string
}

func newBackend() *backend {
	return &backend{prepared: true, statements: map[string]word{}, portals: map[string]word{}}
}

func (b *backend) say(s ...string) { b.out = append(b.out, s...) }

func (b *backend) end() {
	b.wrote, b.safe, b.saved, b.block, b.failed, b.snapped = false, false, false, false, false, false
	clear(b.portals)
}

func (b *backend) commit() {
	if b.wrote && !b.safe {
		b.violation = "a transaction that wrote was committed and never checked"
	}
	b.end()
}

func (b *backend) fail(code string, extended bool) {
	b.say("E" + code)
	if b.block {
		b.failed, b.wrote = true, false
		clear(b.portals)
	} else {
		b.end()
	}
	b.skip = extended
}

func (b *backend) ready() {
	switch {
	case b.failed:
		b.say("ZE")
	case b.block:
		b.say("ZT")
	default:
		b.say("ZI")
	}
}

// handle takes one message.
func (b *backend) handle(m toServer) {
	if m.kind == 'S' {
		b.skip = false
		if !b.block {
			b.commit()
		}
		b.ready()
		return
	}
	if b.skip {
		return
	}
	switch m.kind {
	case '*':
		b.prefix(m)
	case 'P':
		b.parse(m.name, m.words[0])
	case 'B':
		b.bind(m.portal, m.name)
	case 'E':
		b.execute(m.portal)
	case 'C':
		delete(b.statements, m.name)
		b.say("3")
	case 'Q':
		b.query(m.words)
	}
}

func (b *backend) parse(name string, w word) {
	_, exists := b.statements[name]
	if name == "" {
		delete(b.statements, "")
	}
	switch {
	case w == wBad:
		b.fail("42601", true)
	case b.failed && !w.exits():
		b.fail("25P02", true)
	case exists && name != "":
		b.fail("42P05", true)
	default:
		b.statements[name] = w
		b.say("1")
	}
}

func (b *backend) bind(portal, name string) {
	w, exists := b.statements[name]
	_, taken := b.portals[portal]
	switch {
	case !exists:
		b.fail("26000", true)
	case b.failed && !w.exits():
		b.fail("25P02", true)
	case taken && portal != "":
		b.fail("42P03", true)
	default:
		b.portals[portal] = w
		b.snapped = b.snapped || w.snaps()
		b.say("2")
	}
}

func (b *backend) execute(portal string) {
	w, exists := b.portals[portal]
	if !exists {
		b.fail("34000", true)
		return
	}
	b.run(w, true, false)
}

// run executes a statement; together: it is one of several of a Query.
func (b *backend) run(w word, extended, together bool) bool {
	if b.failed && !w.exits() {
		b.fail("25P02", extended)
		return false
	}
	b.snapped = b.snapped || w.snaps()
	switch w {
	case wLock:
		if !b.block {
			b.fail("25P01", extended)
			return false
		}
		if b.snapped && !together {
			b.say("CLOCK late")
			return true
		}
	case wWrite:
		b.wrote = true
	case wFail:
		b.fail("23505", extended)
		return false
	case wBegin:
		b.block = true
	case wCommit:
		if b.failed {
			b.end()
			b.say("CROLLBACK")
			return true
		}
		b.commit()
	case wRollback:
		b.end()
	case wSavepoint:
		if !b.block {
			b.fail("25P01", extended)
			return false
		}
		b.saved = true
	case wBack:
		if !b.saved {
			b.fail("3B001", extended)
			return false
		}
		b.failed = false
	case wCall, wDropAll:
		if b.commits && !b.block && !together {
			b.commit() // and goes on in the next transaction
		}
		b.wrote = true
		if w == wDropAll {
			clear(b.statements)
			b.prepared = false
		}
	case wVacuum:
		if b.block || together {
			b.fail("25001", extended)
			return false
		}
		b.commit()
	case wForget:
		clear(b.statements)
		b.prepared = false
	case wDrop:
		b.prepared = false
	case wFree, wTouch, wBad:
	}
	b.say("C" + string(w))
	return true
}

func (b *backend) query(words []word) {
	delete(b.statements, "")
	if slices.Contains(words, wBad) {
		b.fail("42601", false)
		b.ready()
		return
	}
	for _, w := range words {
		if !b.run(w, false, len(words) > 1) {
			break
		}
	}
	if !b.block {
		b.commit()
	}
	b.ready()
}

// prefix does what the messages of a prefix do.
func (b *backend) prefix(m toServer) {
	for range m.parses {
		b.prepared = true
		b.say("3", "1")
	}
	for _, p := range prefixOrder {
		if m.prefix&p == 0 || b.skip {
			continue
		}
		if b.failed && p != Begin {
			b.fail("25P02", true)
			continue
		}
		if !b.prepared {
			b.fail("26000", true)
			continue
		}
		switch p {
		case Begin:
			b.block = true
			b.say("2", "CBEGIN", "3")
			continue
		case End:
			b.say("2")
			b.commit()
			b.say("CCOMMIT", "3")
			continue
		case Refusal:
			b.fail("TK007", true)
			continue
		case Check, Enter, Leave:
			if b.stale {
				b.fail("TK001", true)
				continue
			}
			b.safe = true
		case Present:
		}
		b.snapped = true
		b.say("2", "3")
	}
}

var prefixOrder = []Prefix{Begin, Check, Enter, Present, Leave, Refusal, End}

// suffix does what goes behind a wrapped Query.
func (b *backend) suffix(s Suffix, anew bool) {
	if s == Nothing {
		return
	}
	switch {
	case b.skip:
	case anew && b.failed:
		b.say("3")
		b.fail("25P02", true)
	case anew:
		b.prefix(toServer{parses: OwnStatements})
	}
	if s == LeaveCommit && !b.skip {
		b.prefix(toServer{prefix: Leave})
	}
	if !b.skip && !b.prepared {
		b.fail("26000", true)
	}
	if !b.skip {
		b.say("2")
		if b.failed {
			b.end()
			b.say("CROLLBACK")
		} else {
			b.commit()
			b.say("CCOMMIT")
		}
		b.say("3")
	}
	b.handle(toServer{kind: 'S'})
}

// then does what the proxy adds after a message of the server's.
func (b *backend) then(t Then) {
	if t == Sync || t == SyncRollback {
		b.handle(toServer{kind: 'S'})
	}
	if t == Rollback || t == SyncRollback {
		b.say("3", "1", "2")
		b.run(wRollback, true, false)
		b.say("3", "3")
		b.handle(toServer{kind: 'S'})
	}
}

// relay is a proxy around the machine, between a client of the model's and its
// backend, whose messages may take any time on their way.
type relay struct {
	m         *Machine
	b         *backend
	kind      Kind
	toBackend []toServer
	toClient  []string
	kept      string
	refused   bool
	flushed   bool
	broken    string
}

// offer takes the client's next message, if it may go on.
func (r *relay) offer(m toServer) bool {
	kind, body := encode(m)
	prepared := r.m.Prepared()
	v := r.m.Client(kind, body)
	switch v.Do {
	case Forward:
		r.flushed = false
		if v.Before != 0 {
			parses := 0
			if !prepared {
				parses = OwnStatements
			}
			r.toBackend = append(r.toBackend, toServer{kind: '*', prefix: v.Before, parses: parses})
		}
		m.suffix, m.anew = v.After, v.Anew
		r.toBackend = append(r.toBackend, m)
		r.refused = r.refused || v.Before&Refusal != 0
		return true
	case Resolve:
		if r.m.Quiet() {
			r.m.Resolved(r.kind)
		}
	case Flush:
		r.flushed = true
	case Violation:
		r.broken = "violation"
	case Wait:
	}
	return false
}

// serve has the backend take its next message.
func (r *relay) serve() bool {
	if len(r.toBackend) == 0 {
		return false
	}
	m := r.toBackend[0]
	r.toBackend = r.toBackend[1:]
	if m.kind == '!' {
		r.b.then(m.then)
		return true
	}
	r.b.handle(m)
	r.b.suffix(m.suffix, m.anew)
	return true
}

// deliver brings the backend's next reply back.
func (r *relay) deliver() bool {
	if len(r.b.out) == 0 {
		return false
	}
	reply := r.b.out[0]
	r.b.out = r.b.out[1:]
	body := []byte(reply[1:] + "\x00")
	switch reply[0] {
	case 'Z':
		body = []byte(reply[1:])
	case 'E':
		body = []byte("SERROR\x00C" + reply[1:] + "\x00\x00")
	}
	a := r.m.Server(reply[0], body)
	switch a.Do {
	case Relay, Strip, Explain:
		r.toClient = append(r.toClient, reply)
	case Keep:
		r.kept = reply
	case Drop, Collect:
	}
	switch a.Then {
	case Release:
		r.toClient = append(r.toClient, r.kept)
	case Broken:
		r.broken = "broken by " + reply
	case Sync, Rollback, SyncRollback:
		if len(r.toBackend) > 1 { // the Query itself may be on its way
			r.broken = fmt.Sprintf("%d messages were sent before a Sync of the proxy's own", len(r.toBackend))
		}
		r.toBackend = append(r.toBackend, toServer{kind: '!', then: a.Then})
	case Discard, None:
	}
	return true
}

func encode(m toServer) (kind byte, body []byte) {
	texts := make([]string, len(m.words))
	for i, w := range m.words {
		texts[i] = string(w)
	}
	switch text := strings.Join(texts, "; "); m.kind {
	case 'Q':
		return 'Q', []byte(text + "\x00")
	case 'P':
		return 'P', []byte(m.name + "\x00" + text + "\x00\x00\x00")
	case 'B':
		return 'B', []byte(m.portal + "\x00" + m.name + "\x00\x00\x00\x00\x00\x00\x00")
	case 'E':
		return 'E', []byte(m.portal + "\x00\x00\x00\x00\x00")
	case 'C':
		return 'C', []byte("S" + m.name + "\x00")
	}
	return m.kind, nil
}
