package guardtest

import (
	"strings"
	"testing"
)

func TestExerciseCatches(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		target Target
		caught []string // scenarios that must fail, by prefix
	}{
		"a target without the check": {&withoutCheck{}, []string{
			"superseded tokens are refused", "readers never write", "claims race", "one number handed out twice",
			"tokens superseded under load", "rule/write/writer after writer, lower", "rule/write/malformed, zero token",
		}},
		"check, then write":          {newCheckThenWrite(), []string{"tokens superseded under load", "open write is superseded"}},
		"one writer at a time":       {&oneAtATime{}, []string{"writers of the current token run together", "tokens superseded under load"}},
		"a lie about what is there":  {&liar{}, []string{"tokens superseded under load", "writes given up half-way"}},
		"an acknowledged write lost": {&forgetful{}, []string{"tokens superseded under load"}},
		"a mark that goes down":      {&lowersItsMark{}, []string{"superseded tokens are refused", "rule/claim/writer after writer, lower"}},
		"readers who write":          {&letsReadersWrite{}, []string{"readers never write", "rule/write/reader again"}},
		"readers in order":           {&ordersReaders{}, []string{"readers never write", "rule/claim/reader after reader, lower"}},
		"holders not looked at":      {&ignoresHolders{}, []string{"one number handed out twice", "superseded tokens are refused", "rule/claim/writer twice"}},
		"issuers not looked at":      {&ignoresIssuers{}, []string{"rule/claim/foreign, higher", "rule/claim/foreign, no issuer"}},
		"refusals that are none":     {&mute{}, []string{"superseded tokens are refused", "rule/claim/malformed, zero token"}},
		"anything taken for a token": {&admitsAnything{}, []string{"rule/write/malformed, zero token", "rule/write/malformed, number 0"}},
		"a claim that does not wait": {&nobodyInside{}, []string{
			"a claim waits for who is inside", "readers are inside together", "a claim that gives up waiting",
		}},
		"holders who keep each other out": {&oneInside{place: make(chan struct{}, 1)}, []string{
			"a claim waits for who is inside", "readers are inside together",
		}},
		"an issuer that may come back": {&readopts{}, []string{"rule/adopt/back to its first issuer", "rule/adopt/to its own issuer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := map[string]error{}
			for _, s := range scenarios(row.target) {
				if err := s.run(t.Context()); err != nil {
					failed[s.name] = err
				}
			}
			for _, want := range row.caught {
				if !hasPrefix(failed, want) {
					t.Errorf("passes %q", want)
				}
			}
			if t.Failed() {
				for name, err := range failed {
					t.Logf("%s: %v", name, err)
				}
			}
		})
	}
}

func hasPrefix(failed map[string]error, prefix string) bool {
	for name := range failed {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
