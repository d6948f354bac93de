package guardtest

import "github.com/fenceproxy/fenceproxy/guard"

// Resource is the resource of every token in the tables, but for those whose
// resource is what is wrong with them.
const Resource = "orders"

// Case is one row of the rule: on a resource nobody has claimed, do what Given
// says, then claim Token or check it.
type Case struct {
	// Name is unique in the table.
	Name string
	// Given is what happened at the resource before; all of it succeeds.
	Given []Step
	// Before is the mark that Given leaves.
	Before guard.Mark
	// Token is what is presented.
	Token guard.Token
	// Claim is the sentinel of guard that a claim of Token is refused with, nil
	// if it is admitted.
	Claim error
	// After is the mark after that claim: Before if it was refused.
	After guard.Mark
	// Check is the sentinel that a check of Token, instead of the claim, is
	// refused with, nil if it passes. A check never changes the mark.
	Check error
}

// AdoptCase is one row of what an adoption does.
type AdoptCase struct {
	// Name is unique in the table.
	Name string
	// Given is what happened at the resource before; all of it succeeds.
	Given []Step
	// Issuer is what the resource is adopted to.
	Issuer string
	// Refused says that the adoption is refused.
	Refused bool
	// After is the mark after it.
	After guard.Mark
}

// Step is one act at a resource: a claim of Token or, with Adopt, an adoption
// to Issuer.
type Step struct {
	Token  guard.Token
	Adopt  bool
	Issuer string
}

// On returns the case at another resource than Resource.
func (c Case) On(resource string) Case {
	c.Given = stepsOn(c.Given, resource)
	if c.Token.Resource == Resource {
		c.Token.Resource = resource
	}
	return c
}

// On returns the case at another resource than Resource.
func (c AdoptCase) On(resource string) AdoptCase {
	c.Given = stepsOn(c.Given, resource)
	return c
}

func stepsOn(given []Step, resource string) []Step {
	steps := make([]Step, len(given))
	for i, step := range given {
		if !step.Adopt {
			step.Token.Resource = resource
		}
		steps[i] = step
	}
	return steps
}

// The tables below are written with these: a number that both holder a and
// issuer i handed out, unless a row says otherwise.

func writer(number int64) guard.Token { return token(guard.Exclusive, number, "a") }
func reader(number int64) guard.Token { return token(guard.Shared, number, "a") }

func token(mode guard.Mode, number int64, holder string) guard.Token {
	return guard.Token{Resource: Resource, Number: number, Mode: mode, Holder: holder, Issuer: "i"}
}

func held(t guard.Token, holder string) guard.Token {
	t.Holder = holder
	return t
}

func issued(t guard.Token, issuer string) guard.Token {
	t.Issuer = issuer
	return t
}

func named(t guard.Token, resource string) guard.Token {
	t.Resource = resource
	return t
}

func claims(tokens ...guard.Token) []Step {
	steps := make([]Step, len(tokens))
	for i, t := range tokens {
		steps[i].Token = t
	}
	return steps
}

func adopts(given []Step, issuers ...string) []Step {
	for _, issuer := range issuers {
		given = append(given, Step{Adopt: true, Issuer: issuer})
	}
	return given
}

// mark is a mark of issuer i whose writer, if any, is held by a.
func mark(writer, reader int64) guard.Mark {
	m := guard.Mark{Issuer: "i", Writer: writer, Reader: reader}
	if writer != 0 {
		m.Holder = "a"
	}
	return m
}

func adopted(generation uint32, issuer string) guard.Mark {
	return guard.Mark{Generation: generation, Issuer: issuer}
}

// refused fills in a row whose token is refused, claimed or checked, for one
// and the same reason.
func refused(name string, given []Step, before guard.Mark, t guard.Token, reason error) Case {
	return Case{Name: name, Given: given, Before: before, Token: t, Claim: reason, Check: reason, After: before}
}

// fresh fills in a row whose token is admitted and was not claimed before.
func fresh(name string, given []Step, before guard.Mark, t guard.Token, after guard.Mark) Case {
	return Case{Name: name, Given: given, Before: before, Token: t, Check: guard.ErrUnclaimed, After: after}
}

// current fills in a row whose token has been claimed and still is.
func current(name string, given []Step, before guard.Mark, t guard.Token) Case {
	return Case{Name: name, Given: given, Before: before, Token: t, After: before}
}
