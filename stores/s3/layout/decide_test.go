package layout

import (
	"errors"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
)

func grant(number int64, holder, issuer, resource string, generation uint32) Grant {
	return NewGrant(guard.Token{Resource: resource, Number: number, Mode: guard.Exclusive, Holder: holder, Issuer: issuer}, generation)
}

func by(g Grant, kind Kind, etag string) State {
	return State{ETag: etag, Header: g.Header(kind, NewNonce())}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	me := grant(34, "a", "i", "orders", 1)
	reader := me
	reader.Token.Mode = guard.Shared
	absent, bare := State{}, State{ETag: "e"}
	mine, dead := by(me, Live, "e"), by(me, Tombstone, "e")
	old := by(grant(33, "b", "i", "orders", 1), Live, "e")
	oldDead := by(grant(33, "b", "i", "orders", 1), Tombstone, "e")
	for name, row := range map[string]struct {
		g    Grant
		s    State
		w    Wish
		want Condition
		err  error
	}{
		"absent":                          {me, absent, Wish{}, Condition{}, nil},
		"absent, deleted":                 {me, absent, Wish{Delete: true}, Condition{}, nil},
		"absent, if absent":               {me, absent, Wish{IfAbsent: true}, Condition{}, nil},
		"absent, if match":                {me, absent, Wish{IfMatch: "e"}, Condition{}, ErrPrecondition},
		"absent, if any":                  {me, absent, Wish{IfMatch: "*"}, Condition{}, ErrPrecondition},
		"mine":                            {me, mine, Wish{}, Condition{ETag: "e"}, nil},
		"mine, if absent":                 {me, mine, Wish{IfAbsent: true}, Condition{}, ErrPrecondition},
		"mine, if match":                  {me, mine, Wish{IfMatch: "e"}, Condition{ETag: "e"}, nil},
		"mine, if any":                    {me, mine, Wish{IfMatch: "*"}, Condition{ETag: "e"}, nil},
		"mine, if other":                  {me, mine, Wish{IfMatch: "f"}, Condition{}, ErrPrecondition},
		"mine, deleted":                   {me, mine, Wish{Delete: true}, Condition{ETag: "e"}, nil},
		"tombstone":                       {me, dead, Wish{}, Condition{ETag: "e"}, nil},
		"tombstone, if absent":            {me, dead, Wish{IfAbsent: true}, Condition{ETag: "e"}, nil},
		"tombstone, if its own ETag":      {me, dead, Wish{IfMatch: "e"}, Condition{}, ErrPrecondition},
		"tombstone, if any":               {me, dead, Wish{IfMatch: "*"}, Condition{}, ErrPrecondition},
		"my tombstone, deleted":           {me, dead, Wish{Delete: true}, Condition{ETag: "e", Nothing: true}, nil},
		"an older tombstone, deleted":     {me, oldDead, Wish{Delete: true}, Condition{ETag: "e"}, nil},
		"tombstone, seen":                 {me, oldDead, Wish{Delete: true, Seen: "e"}, Condition{ETag: "e"}, nil},
		"tombstone, another seen":         {me, oldDead, Wish{Delete: true, Seen: "f"}, Condition{}, ErrPrecondition},
		"mine, tombstone seen":            {me, mine, Wish{Delete: true, Seen: "f"}, Condition{}, ErrPrecondition},
		"absent, another seen":            {me, absent, Wish{Seen: "f"}, Condition{}, ErrPrecondition},
		"older":                           {me, old, Wish{}, Condition{ETag: "e"}, nil},
		"bare":                            {me, bare, Wish{}, Condition{}, guard.ErrUnsupported},
		"bare, legacy":                    {me, bare, Wish{Legacy: true}, Condition{ETag: "e"}, nil},
		"bare, legacy, if absent":         {me, bare, Wish{Legacy: true, IfAbsent: true}, Condition{}, ErrPrecondition},
		"bare, legacy, if match":          {me, bare, Wish{Legacy: true, IfMatch: "e"}, Condition{ETag: "e"}, nil},
		"a shared token":                  {reader, absent, Wish{}, Condition{}, guard.ErrReadOnly},
		"newer":                           {me, by(grant(35, "b", "i", "orders", 1), Live, "e"), Wish{}, Condition{}, guard.ErrStale},
		"newer, condition false":          {me, by(grant(35, "b", "i", "orders", 1), Live, "e"), Wish{IfMatch: "f"}, Condition{}, guard.ErrStale},
		"newer tombstone":                 {me, by(grant(35, "b", "i", "orders", 1), Tombstone, "e"), Wish{IfAbsent: true}, Condition{}, guard.ErrStale},
		"same number":                     {me, by(grant(34, "b", "i", "orders", 1), Live, "e"), Wish{}, Condition{}, guard.ErrDuplicate},
		"other issuer, same generation":   {me, by(grant(33, "a", "j", "orders", 1), Live, "e"), Wish{}, Condition{}, guard.ErrForeign},
		"higher generation, lower number": {me, by(grant(1, "a", "j", "orders", 2), Live, "e"), Wish{}, Condition{}, guard.ErrForeign},
		"lower generation, higher number": {me, by(grant(99, "b", "j", "orders", 0), Live, "e"), Wish{}, Condition{ETag: "e"}, nil},
		"another resource":                {me, by(grant(33, "a", "i", "stock", 1), Live, "e"), Wish{}, Condition{}, guard.ErrNoToken},
		"another resource, lower":         {me, by(grant(33, "a", "i", "stock", 0), Live, "e"), Wish{}, Condition{}, guard.ErrNoToken},
		"holder is not known by its name": {
			grant(34, "_", "_", "orders", 1), by(grant(34, "__", "_", "orders", 1), Live, "e"), Wish{}, Condition{}, guard.ErrDuplicate,
		},
	} {
		got, err := row.g.Decide(row.s, row.w)
		if got != row.want || !errors.Is(err, row.err) || (err == nil) != (row.err == nil) {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, got, err, row.want, row.err)
		}
		if row.err != nil && row.err != ErrPrecondition && guard.OutcomeOf(err) != guard.Refused { //nolint:errorlint // the row's own
			t.Errorf("%s: outcome is %v", name, guard.OutcomeOf(err))
		}
	}
}

// A refusal tells of the mark what the header tells, and nothing that it does
// not.
func TestRefusalTellsTheHeader(t *testing.T) {
	t.Parallel()
	_, err := grant(34, "a", "i", "orders", 1).Decide(by(grant(35, "b", "i", "orders", 1), Live, "e"), Wish{})
	var refused *guard.RefusedError
	if !errors.As(err, &refused) || refused.Mark != (guard.Mark{Issuer: "i", Generation: 1, Writer: 35}) {
		t.Errorf("%+v", refused)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	me, nonce := grant(34, "a", "i", "orders", 1), NewNonce()
	sent := Condition{ETag: "before"}
	mine := State{ETag: "after", Header: me.Header(Live, nonce)}
	unchanged := State{ETag: "before", Header: me.Header(Live, NewNonce())}
	for name, row := range map[string]struct {
		reply Reply
		now   State
		want  Fate
	}{
		"accepted":                           {Accepted, State{}, Applied},
		"denied, but it is there":            {Denied, mine, Applied},
		"lost, but it is there":              {Lost, mine, Applied},
		"denied":                             {Denied, unchanged, Failed},
		"denied, and it moved on":            {Denied, by(me, Live, "other"), Failed},
		"lost":                               {Lost, unchanged, Pending},
		"lost, then another of mine":         {Lost, by(me, Live, "other"), Unknown},
		"lost, then a newer holder's":        {Lost, by(grant(35, "b", "i", "orders", 1), Live, "other"), Unknown},
		"lost, then an older holder's":       {Lost, by(grant(33, "b", "i", "orders", 1), Live, "other"), Failed},
		"lost, then an older generation's":   {Lost, by(grant(99, "b", "h", "orders", 0), Live, "other"), Failed},
		"lost, then another resource's":      {Lost, by(grant(1, "b", "i", "stock", 0), Live, "other"), Unknown},
		"lost, then removed past the fence":  {Lost, State{}, Unknown},
		"lost, then replaced past the fence": {Lost, State{ETag: "other"}, Unknown},
		"lost, and my nonce by somebody else": {
			Lost, State{ETag: "other", Header: grant(35, "b", "i", "orders", 1).Header(Live, nonce)}, Unknown,
		},
	} {
		if got := me.Settle(sent, nonce, row.reply, row.now); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}
