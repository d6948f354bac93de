package demo

// show puts a worker's report into words.
func (s *story) show(who actor, r report) {
	say := func(tone tone, format string, args ...any) { s.timeline.say(who, r.Number, tone, format, args...) }
	switch r.Step {
	case stepWaiting:
		say(plain, "asks for the lock")
	case stepAcquired:
		say(plain, "acquired the lock, its lease holds for %s", seconds(r.Lease))
		say(dim, "%s", r.Token)
	case stepClaimed:
		say(plain, "claimed: the database has seen this token and refuses older ones from here on")
	case stepCritical:
		say(plain, "reads balance %d, will write %d; looks at its lease: it holds", r.Read, r.Read+r.Amount)
	case stepLate:
		say(bold, "goes on as if nothing had happened")
	case stepCommitted:
		say(plain, "committed: read %d, added %d, wrote %d", r.Read, r.Amount, r.Wrote)
	case stepRefused:
		say(green, "REFUSED, nothing written: %s", r.Text)
	case stepReleased:
		say(plain, "is done")
	case stepFailed: // is an error, told as such
	}
}

// conclude says what the database says about a round.
func (s *story) conclude(a Account) {
	tone, verdict := green, "the ledger is right"
	if !a.Right {
		tone, verdict = red, "THE LEDGER IS WRONG"
	}
	s.timeline.say(director, 0, tone, "%s: balance %d, opening balance and entries make %d (lost: %d)",
		verdict, a.Balance, a.Expected, a.Expected-a.Balance)
	s.timeline.say(director, 0, tone, "stale writes applied: %d, refused: %d", a.StaleWritesApplied, a.StaleWritesRefused)
}
