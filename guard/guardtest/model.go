package guardtest

import (
	"slices"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Model is the rule told from history: it keeps every grant that a resource
// has admitted, and no mark. guard.Admit is compared with it. The zero Model is
// a resource nobody has claimed.
type Model struct {
	eras []era // one per adoption, and the first; the last one counts
}

// era is the time of one issuer.
type era struct {
	issuer string
	grants []guard.Token // in the order admitted
}

// Claim decides about t, and enters it into the history if it is admitted. It
// returns nil or the sentinel of guard that is the reason.
func (m *Model) Claim(t guard.Token) error {
	if reason := m.refusal(t); reason != nil {
		return reason
	}
	if len(m.eras) == 0 {
		m.eras = append(m.eras, era{issuer: t.Issuer})
	}
	now := &m.eras[len(m.eras)-1]
	now.grants = append(now.grants, t)
	return nil
}

// Check decides whether t has been claimed.
func (m *Model) Check(t guard.Token) error {
	if reason := m.refusal(t); reason != nil {
		return reason
	}
	claimed := slices.ContainsFunc(m.grants(), func(g guard.Token) bool {
		return sameGrant(g, t) || g.Mode == guard.Shared && t.Mode == guard.Shared && g.Number >= t.Number
	})
	if !claimed {
		return guard.ErrUnclaimed
	}
	return nil
}

// Adopt starts the era of issuer. It reports false, and does nothing, if the
// resource has had that issuer before, or if it is none.
func (m *Model) Adopt(issuer string) bool {
	had := slices.ContainsFunc(m.eras, func(e era) bool { return e.issuer == issuer })
	if had || guard.ValidateID(issuer) != nil {
		return false
	}
	if len(m.eras) == 0 {
		m.eras = append(m.eras, era{issuer: nobody})
	}
	m.eras = append(m.eras, era{issuer: issuer})
	return true
}

// nobody is the issuer of the era before a first adoption in which nobody
// claimed. It is not a valid id.
const nobody = "\x00"

// Mark returns the mark that the history amounts to.
func (m *Model) Mark() guard.Mark {
	if len(m.eras) == 0 {
		return guard.Mark{}
	}
	mark := guard.Mark{Issuer: m.eras[len(m.eras)-1].issuer, Generation: uint32(len(m.eras) - 1)}
	if w, found := m.highest(guard.Exclusive); found {
		mark.Writer, mark.Holder = w.Number, w.Holder
	}
	if r, found := m.highest(guard.Shared); found {
		mark.Reader = r.Number
	}
	return mark
}

// refusal says why t is refused, if it is. A token is admitted if, of all the
// grants that it conflicts with, none has its number or a higher one, but for
// its own grant. The rest says why not.
func (m *Model) refusal(t guard.Token) error {
	if t.Validate() != nil {
		return guard.ErrMalformed
	}
	if len(m.eras) > 0 && m.eras[len(m.eras)-1].issuer != t.Issuer {
		return guard.ErrForeign
	}
	overtaken := slices.ContainsFunc(m.grants(), func(g guard.Token) bool {
		return conflict(g, t) && g.Number >= t.Number && !sameGrant(g, t)
	})
	if !overtaken {
		return nil
	}
	for _, mode := range []guard.Mode{guard.Exclusive, guard.Shared} {
		last, found := m.highest(mode)
		if found && last.Number == t.Number && conflict(last, t) && !sameGrant(last, t) {
			return guard.ErrDuplicate
		}
	}
	return guard.ErrStale
}

func (m *Model) grants() []guard.Token {
	if len(m.eras) == 0 {
		return nil
	}
	return m.eras[len(m.eras)-1].grants
}

// highest returns the grant of mode with the highest number of this era.
func (m *Model) highest(mode guard.Mode) (top guard.Token, found bool) {
	for _, g := range m.grants() {
		if g.Mode == mode && (!found || g.Number > top.Number) {
			top, found = g, true
		}
	}
	return top, found
}

// conflict reports whether the two may not hold the lock together: at least
// one of them writes.
func conflict(a, b guard.Token) bool {
	return a.Mode == guard.Exclusive || b.Mode == guard.Exclusive
}

func sameGrant(a, b guard.Token) bool {
	return a.Mode == b.Mode && a.Number == b.Number && a.Holder == b.Holder
}
