package guard

// Mark is what a resource remembers of the tokens it has admitted. The zero
// Mark is that of a resource nobody has claimed. A mark never goes down; only
// an operator's adoption starts its numbers again, under the next generation.
type Mark struct {
	// Issuer is the counter that the numbers come from.
	Issuer string
	// Generation counts the adoptions of the resource, from 0.
	Generation uint32
	// Writer is the highest exclusive number admitted, 0 for none.
	Writer int64
	// Holder is the holder of Writer.
	Holder string
	// Reader is the highest shared number admitted, 0 for none.
	Reader int64
}

// Touched reports whether the resource was ever claimed or adopted. From then
// on its issuer is fixed.
func (m Mark) Touched() bool { return m.Writer != 0 || m.Reader != 0 || m.Generation != 0 }

// Admit is the rule: it decides whether a resource with mark m admits t, and
// returns the mark that the resource keeps from then on. A refusal returns m
// unchanged and a *RefusedError that matches, in this order, ErrMalformed,
// ErrForeign, ErrDuplicate or ErrStale.
//
// Readers are never compared with readers: two live ones may come in any
// order. The rule is pure; whoever calls it makes the decision, the new mark
// and the write one atomic act (I1).
func Admit(m Mark, t Token) (Mark, error) {
	err := m.admit(&t) // so small that it is inlined: neither struct is copied to call the rule
	return m, err
}

// Claimed decides whether t has been claimed at a resource with mark m, which
// is what a check asks. It returns nil, a refusal of Admit, or a *RefusedError
// that matches ErrUnclaimed when Admit would admit t but nobody has claimed it.
func Claimed(m Mark, t Token) error {
	reason := m.judge(&t)
	if reason == nil && (t.Mode == Exclusive && t.Number != m.Writer || t.Mode == Shared && t.Number > m.Reader) {
		reason = ErrUnclaimed
	}
	if reason != nil {
		return refuse(&m, &t, reason)
	}
	return nil
}

// EndsAdmissions reports whether the claim or adoption that turns mark before
// into after ends the admission of anybody admitted before: every claim by a
// new writer and a reader's first after a writer do, a further reader's does
// not. Only such a claim waits for those whom it ends.
func EndsAdmissions(before, after Mark) bool {
	return after.Generation != before.Generation ||
		after.Writer != before.Writer ||
		after.Reader != before.Reader && before.Reader <= before.Writer
}

func (m *Mark) admit(t *Token) error {
	if reason := m.judge(t); reason != nil {
		return refuse(m, t, reason)
	}
	switch {
	case t.Mode == Shared:
		m.Issuer, m.Reader = t.Issuer, max(m.Reader, t.Number)
	case t.Number != m.Writer:
		m.Issuer, m.Writer, m.Holder = t.Issuer, t.Number, t.Holder
	}
	return nil
}

// judge returns the reason why m does not admit t, nil if it does.
func (m *Mark) judge(t *Token) error {
	sameHolder, sameIssuer := t.Holder == m.Holder, t.Issuer == m.Issuer
	// What the mark holds is valid, so a current token need not be looked
	// through again. flaw has the last word.
	plain := t.Number > 0 && t.Mode.valid() &&
		t.Resource != "" && len(t.Resource) <= MaxResourceLen && printableASCII(t.Resource) &&
		(sameHolder || validID(t.Holder)) && (sameIssuer || validID(t.Issuer))
	if !plain {
		if flaw := t.flaw(); flaw != "" {
			return flawError{flaw}
		}
	}
	if !sameIssuer && m.Touched() {
		return ErrForeign
	}
	if t.Mode == Shared {
		switch {
		case t.Number == m.Writer:
			return ErrDuplicate
		case t.Number < m.Writer:
			return ErrStale
		}
		return nil
	}
	switch {
	case t.Number == m.Reader, t.Number == m.Writer && !sameHolder:
		return ErrDuplicate
	case t.Number < m.Writer, t.Number < m.Reader:
		return ErrStale
	}
	return nil
}
