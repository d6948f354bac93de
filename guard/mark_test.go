package guard_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/guardtest"
)

// history is what guards do with the rule, without anything guarded.
type history struct{ mark guard.Mark }

func (h *history) claim(t guard.Token) error {
	mark, err := guard.Admit(h.mark, t)
	h.mark = mark
	return err
}

func (h *history) adopt(issuer string) {
	h.mark = guard.Mark{Issuer: issuer, Generation: h.mark.Generation + 1}
}

func TestRuleKeepsToTheTable(t *testing.T) {
	t.Parallel()
	for _, c := range guardtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			var h history
			for i, step := range c.Given {
				if step.Adopt {
					h.adopt(step.Issuer)
				} else if err := h.claim(step.Token); err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
			}
			if h.mark != c.Before {
				t.Errorf("mark before is %+v, want %+v", h.mark, c.Before)
			}
			expectRefusal(t, guard.Claimed(h.mark, c.Token), c.Check, h.mark, c.Token)
			err := h.claim(c.Token)
			expectRefusal(t, err, c.Claim, c.Before, c.Token)
			if h.mark != c.After {
				t.Errorf("mark after is %+v, want %+v", h.mark, c.After)
			}
		})
	}
}

func expectRefusal(t *testing.T, err, reason error, m guard.Mark, token guard.Token) {
	t.Helper()
	if !errors.Is(err, reason) {
		t.Errorf("got %v, want %v", err, reason)
	}
	if reason == nil {
		return
	}
	var refused *guard.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("%v is not a *RefusedError", err)
	}
	if refused.Mark != m || refused.Token != token {
		t.Errorf("refusal carries mark %+v and token %+v, want %+v and %+v", refused.Mark, refused.Token, m, token)
	}
	if guard.OutcomeOf(err) != guard.Refused {
		t.Errorf("outcome is %v", guard.OutcomeOf(err))
	}
}

// A rule of few numbers, holders and issuers, so that they meet often.
func smallToken(next func(n int) int) guard.Token {
	return guard.Token{
		Resource: guardtest.Resource,
		Number:   int64(next(8)), // 0 is malformed
		Mode:     [...]guard.Mode{guard.Exclusive, guard.Shared}[next(2)],
		Holder:   [...]string{"a", "b", ""}[next(3)],
		Issuer:   [...]string{"i", "i", "i", "j", ""}[next(5)],
	}
}

func TestRuleAgreesWithTheModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		if err := compareWithModel(random.IntN, 40); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func FuzzRule(f *testing.F) {
	f.Add([]byte{1, 3, 0, 0, 0, 1, 4, 0, 0, 0})
	f.Add([]byte{1, 3, 1, 0, 0, 1, 2, 1, 1, 0, 1, 3, 0, 0, 0, 0, 1, 1, 5, 0, 0, 3})
	f.Fuzz(func(t *testing.T, choices []byte) {
		next := func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := choices[0]
			choices = choices[1:]
			return int(c) % n
		}
		if err := compareWithModel(next, len(choices)/2); err != nil {
			t.Fatal(err)
		}
	})
}

// compareWithModel plays steps random claims and adoptions to the rule and to
// the model, and looks at what must hold after each.
func compareWithModel(next func(n int) int, steps int) error {
	var (
		h     history
		model guardtest.Model
	)
	for range steps {
		before := h.mark
		if next(16) == 0 {
			if issuer := [...]string{"i", "j", "k", ""}[next(4)]; model.Adopt(issuer) {
				h.adopt(issuer)
				if !guard.EndsAdmissions(before, h.mark) {
					return fmt.Errorf("adoption of %+v ends no admission", before)
				}
			}
			continue
		}
		token := smallToken(next)
		if err := compareOne(&h, &model, token); err != nil {
			return fmt.Errorf("%v at %+v: %w", token, before, err)
		}
	}
	return nil
}

func compareOne(h *history, model *guardtest.Model, token guard.Token) error {
	before := h.mark
	wantCheck, wantClaim := model.Check(token), model.Claim(token)
	if err := guard.Claimed(before, token); !errors.Is(err, wantCheck) {
		return fmt.Errorf("check: %w, want %w", err, wantCheck)
	}
	err := h.claim(token)
	if !errors.Is(err, wantClaim) {
		return fmt.Errorf("claim: %w, want %w", err, wantClaim)
	}
	switch {
	case h.mark != model.Mark():
		return fmt.Errorf("mark is %+v, want %+v", h.mark, model.Mark())
	case err != nil && h.mark != before:
		return errors.New("a refusal changed the mark")
	case err == nil && wantCheck == nil && h.mark != before:
		return errors.New("a token that was claimed changed the mark")
	case h.mark.Writer < before.Writer || h.mark.Reader < before.Reader:
		return errors.New("the mark went down")
	case err == nil && guard.Claimed(h.mark, token) != nil:
		return errors.New("an admitted token is not claimed")
	case err == nil && token.Mode == guard.Exclusive && (token.Number < before.Writer || token.Number < before.Reader):
		return errors.New("a stale writer was admitted")
	case err == nil && token.Mode == guard.Shared && token.Number < before.Writer:
		return errors.New("a stale reader was admitted")
	}
	return nil
}

// Whoever's admission a claim ends is ended by one that says so; and only a
// further reader's claim says that it ends nobody's.
func TestEndsAdmissions(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var h history
		for range random.IntN(6) {
			_ = h.claim(smallToken(random.IntN))
		}
		before, claimed := h.mark, smallToken(random.IntN)
		if h.claim(claimed) != nil {
			continue
		}
		ends := guard.EndsAdmissions(before, h.mark)
		again := guard.Claimed(before, claimed) == nil
		furtherReader := claimed.Mode == guard.Shared && before.Reader > before.Writer
		if want := !again && !furtherReader; ends != want {
			t.Fatalf("%v at %+v: ends admissions: %v, want %v", claimed, before, ends, want)
		}
		for range 50 {
			other := smallToken(random.IntN)
			if guard.Claimed(before, other) == nil && guard.Claimed(h.mark, other) != nil && !ends {
				t.Fatalf("%v at %+v ended %v and says it ended nobody", claimed, before, other)
			}
		}
	}
}

// A token that breaks the contract in any field is malformed to the rule.
func TestRuleLooksAtEveryField(t *testing.T) {
	t.Parallel()
	good := guard.Token{Resource: "orders", Number: 34, Mode: guard.Exclusive, Holder: "a", Issuer: "i"}
	for c := range 256 {
		for at := range 9 { // the ids are looked at four bytes a turn
			id := []byte(strings.Repeat("x", 9))
			id[at] = byte(c)
			holder, issuer, resource := good, good, good
			holder.Holder, issuer.Issuer, resource.Resource = string(id), string(id), string(id)
			for _, token := range []guard.Token{holder, issuer, resource} {
				_, err := guard.Admit(guard.Mark{}, token)
				if valid := token.Validate() == nil; valid != (err == nil) {
					t.Fatalf("%+q: valid is %v, Admit says %v", token, valid, err)
				}
			}
			inAlphabet := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-", byte(c)) >= 0
			if (guard.ValidateID(string(id)) == nil) != inAlphabet {
				t.Fatalf("id %q: %v", id, guard.ValidateID(string(id)))
			}
			inName := c >= 0x20 && c < 0x7f
			if (guard.ValidateResource(string(id)) == nil) != inName {
				t.Fatalf("resource %q: %v", id, guard.ValidateResource(string(id)))
			}
		}
	}
}

func TestMayWrite(t *testing.T) {
	t.Parallel()
	writer := guard.Token{Resource: "orders", Number: 34, Mode: guard.Exclusive}
	if err := writer.MayWrite(); err != nil {
		t.Errorf("writer: %v", err)
	}
	reader := writer
	reader.Mode = guard.Shared
	expectRefusal(t, reader.MayWrite(), guard.ErrReadOnly, guard.Mark{}, reader)
}

func TestAdmitAllocatesNothing(t *testing.T) {
	token := guard.Token{Resource: "orders", Number: 1, Mode: guard.Exclusive, Holder: "9f8c2ab1", Issuer: "k3v9"}
	mark := guard.Mark{}
	allocs := testing.AllocsPerRun(1000, func() {
		token.Number++
		var err error
		if mark, err = guard.Admit(mark, token); err != nil {
			t.Error(err)
		}
		if err = guard.Claimed(mark, token); err != nil {
			t.Error(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
