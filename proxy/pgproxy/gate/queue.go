package gate

// reply is what the server is expected to answer next.
type reply struct {
	kind replyKind
	// n is how many completions it is, of those kinds that are counted: every
	// message of the extended protocol but Sync and Flush has exactly one.
	n int
	// sync: a Query or FunctionCall follows, and no Sync of the client's.
	sync bool
	// rollback: if this fails, the block is to be rolled back.
	rollback bool
	// prepares: the proxy's own statements are prepared in front of it.
	prepares bool
	// wrap says whether the block of the proxy's own is open behind it.
	wrap wrapping
	// before is how many boundaries were sent before this one, of a Sync.
	before uint64
	// number is that of the message, of what goes around one.
	number uint64
}

// wrapping is what becomes of a block that the proxy began around statements of
// the client's.
type wrapping uint8

const (
	asItWas wrapping = iota
	opened
	closed
)

type replyKind uint8

const (
	// passed are completions of the client's own messages.
	passed replyKind = iota
	// ours are completions of a prefix.
	ours
	// query is a Query or FunctionCall of the client's, up to ReadyForQuery.
	query
	// wrapped is a Query between BEGIN and COMMIT of ours, up to ReadyForQuery.
	wrapped
	// commit is the COMMIT behind it, up to ReadyForQuery.
	commitReply
	// sync is the client's Sync: ReadyForQuery.
	syncReply
	// dropped is everything up to ReadyForQuery, which nobody but the proxy
	// asked for.
	dropped
	// cleanup is the same, but for the ReadyForQuery: the client waits for it.
	cleanup
	// own is an exchange of the proxy's own, up to ReadyForQuery.
	own
)

// boundary reports whether the client waits for its ReadyForQuery.
func (r *reply) boundary() bool {
	switch r.kind {
	case query, commitReply, syncReply, cleanup:
		return true
	case passed, ours, wrapped, dropped, own:
	}
	return false
}

// queue is a ring of the replies that are expected, in order.
type queue struct {
	ring       []reply
	head, size int
	boundaries int
}

func (q *queue) push(r reply) {
	if r.boundary() {
		q.boundaries++
	}
	if q.size > 0 && r.kind == passed {
		if last := q.at(q.size - 1); last.kind == passed && last.wrap == r.wrap {
			last.n += r.n
			return
		}
	}
	if q.size == len(q.ring) {
		q.grow()
	}
	q.size++
	*q.at(q.size - 1) = r
}

func (q *queue) grow() {
	ring := make([]reply, max(8, 2*len(q.ring)))
	for i := range q.size {
		ring[i] = *q.at(i)
	}
	q.ring, q.head = ring, 0
}

func (q *queue) at(i int) *reply { return &q.ring[(q.head+i)%len(q.ring)] }

// first returns the next reply; nil if none is expected.
func (q *queue) first() *reply {
	if q.size == 0 {
		return nil
	}
	return q.at(0)
}

func (q *queue) pop() reply {
	r := *q.at(0)
	q.head = (q.head + 1) % len(q.ring)
	q.size--
	if r.boundary() {
		q.boundaries--
	}
	return r
}

// replace makes the first reply another one.
func (q *queue) replace(r reply) {
	old := q.at(0)
	if old.boundary() {
		q.boundaries--
	}
	*old = r
	if r.boundary() {
		q.boundaries++
	}
}

// skipToSync drops what a server leaves out that skips up to the next Sync. It
// reports whether that Sync has been sent, whether the proxy's own statements were
// to be prepared before it, and how many messages of the client's are left out.
func (q *queue) skipToSync() (sent, unprepared bool, left uint64) {
	for q.size > 0 {
		if q.first().kind == syncReply {
			return true, unprepared, left
		}
		r := q.pop()
		unprepared = unprepared || r.prepares
		if r.kind == passed {
			left += uint64(r.n) //nolint:gosec // a count
		}
	}
	return false, unprepared, left
}

// dropSyncs forgets the Syncs before that boundary, and returns how many.
func (q *queue) dropSyncs(before uint64) (dropped uint64) {
	kept := 0
	for i := range q.size {
		r := *q.at(i)
		if r.kind == syncReply && r.before < before {
			q.boundaries--
			dropped++
			continue
		}
		*q.at(kept) = r
		kept++
	}
	q.size = kept
	return dropped
}
