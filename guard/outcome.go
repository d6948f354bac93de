package guard

// Outcome answers the question that every error of a write leaves: did it
// happen?
type Outcome uint8

const (
	// Unknown: the write may or may not have happened; the reply was lost.
	Unknown Outcome = iota
	// Applied: the write happened.
	Applied
	// Refused: the fence refused the token; nothing was written.
	Refused
	// NotApplied: the write failed for another reason; nothing was written.
	NotApplied
)

// String returns "unknown", "applied", "refused" or "not applied".
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case Refused:
		return "refused"
	case NotApplied:
		return "not applied"
	case Unknown:
	}
	return "unknown"
}

// OutcomeOf tells what became of a write that returned err. It is Applied for
// nil, and Unknown for every error that does not know, and for joined errors
// that disagree: an unknown outcome is never reported as another (I2).
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Applied
	}
	outcome, _ := outcomeIn(err)
	return outcome
}

// outcomeIn walks the tree of err by itself: errors.As would stop at the first
// of several joined errors.
func outcomeIn(err error) (outcome Outcome, known bool) {
	switch e := err.(type) { //nolint:errorlint // this is the unwrapping
	case interface{ Outcome() Outcome }:
		return e.Outcome(), true
	case interface{ Unwrap() error }:
		return outcomeIn(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, joined := range e.Unwrap() {
			o, knows := outcomeIn(joined)
			switch {
			case !knows:
			case known && o != outcome:
				return Unknown, true
			default:
				outcome, known = o, true
			}
		}
	}
	return outcome, known
}

// OutcomeError is an error of a write together with what became of the write.
type OutcomeError struct {
	// Err is the cause.
	Err error
	// Known is the outcome, and overrules one that Err has. Applied says that
	// what failed came after the write.
	Known Outcome
}

// WithOutcome joins err with the outcome of the write that it ended. It
// returns nil for a nil err.
func WithOutcome(err error, outcome Outcome) error {
	if err == nil {
		return nil
	}
	return &OutcomeError{Err: err, Known: outcome}
}

// Error says the outcome and the cause.
func (e *OutcomeError) Error() string { return "write " + e.Known.String() + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *OutcomeError) Unwrap() error { return e.Err }

// Outcome returns what became of the write.
func (e *OutcomeError) Outcome() Outcome { return e.Known }
