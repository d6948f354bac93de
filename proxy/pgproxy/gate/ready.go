package gate

// ready takes a ReadyForQuery.
func (m *Machine) ready(body []byte) Answer {
	for {
		r := m.replies.first()
		if r == nil {
			return Answer{Then: Broken}
		}
		if r.kind != passed && r.kind != ours {
			break
		}
		m.replies.pop() // it has not been answered, so something is not understood
		m.broken = true
	}
	if m.broken || len(body) == 0 {
		return Answer{Then: Broken}
	}
	at := placeOf(body[0])
	r := m.replies.first()
	switch {
	case r.kind == wrapped, r.kind == dropped:
		m.replies.pop()
		return Answer{Do: Drop}
	case at == failed && (r.kind == commitReply || r.kind == syncReply && r.rollback):
		m.replies.replace(reply{kind: cleanup})
		return Answer{Do: Drop, Then: Rollback}
	}
	m.replies.pop()
	m.answered++
	if m.certain && at != m.at {
		return Answer{Then: Broken}
	}
	m.settle(at)
	return Answer{}
}

// settle is done at each ReadyForQuery of the client's.
func (m *Machine) settle(at place) {
	m.copyIn, m.wrapOpen, m.wrapFailed = false, false, false
	if m.replies.boundaries == 0 {
		m.answered = m.sent
		m.copyEnded = m.copyEnded[:0]
	}
	settled := 0
	for settled < len(m.touched) && m.touched[settled].boundary < m.answered {
		settled++
	}
	m.touched = m.touched[:copy(m.touched, m.touched[settled:])]
	m.earlier = max(0, m.earlier-settled)
	m.mistrust = m.mistrust && at != idle // no portal outlives its transaction
	if m.replies.boundaries > 0 {
		return
	}
	if !m.certain {
		m.at, m.certain = at, true
		m.entered = m.entered && at != idle
	}
	if at == idle {
		m.readOnly = m.readOnly && m.batch.began
		if len(m.portals) > 0 && !m.batch.began {
			clear(m.portals)
		}
	}
}

func placeOf(status byte) place {
	switch status {
	case 'I':
		return idle
	case 'T':
		return block
	}
	return failed
}
