package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

// bed stands in for the test that package testenv wants. Cleanups run in end.
type bed struct {
	testing.TB // for its unexported method; what is not here must not be called

	cleanups []func()
}

// failure is what Fatal panics with.
type failure struct{ error }

func newBed() *bed { return &bed{} }

// end cleans up, last things first.
func (b *bed) end() {
	for _, f := range slices.Backward(b.cleanups) {
		f()
	}
	b.cleanups = nil
}

// part runs f with a bed of its own.
func (b *bed) part(f func(b *bed) error) (err error) {
	part := newBed()
	defer part.end()
	defer part.recovered(&err)
	return f(part)
}

// recovered makes an error of a failure.
func (b *bed) recovered(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = errors.Join(*err, r.error)
	default:
		panic(r)
	}
}

func (b *bed) Helper()                          {}
func (b *bed) Name() string                     { return "bench" }
func (b *bed) Context() context.Context         { return context.Background() }
func (b *bed) Cleanup(f func())                 { b.cleanups = append(b.cleanups, f) }
func (b *bed) Failed() bool                     { return false }
func (b *bed) Log(args ...any)                  { fmt.Fprintln(os.Stderr, args...) }
func (b *bed) Logf(format string, args ...any)  { say(format, args...) }
func (b *bed) Fatal(args ...any)                { panic(failure{errors.New(fmt.Sprint(args...))}) }
func (b *bed) Fatalf(format string, a ...any)   { panic(failure{fmt.Errorf(format, a...)}) }
func (b *bed) Error(args ...any)                { b.Fatal(args...) }
func (b *bed) Errorf(format string, a ...any)   { b.Fatalf(format, a...) }
func (b *bed) Skip(args ...any)                 { b.Fatal(args...) }
func (b *bed) Skipf(format string, args ...any) { b.Fatalf(format, args...) }

// must is for what cannot go on after an error.
func (b *bed) must(err error) {
	if err != nil {
		b.Fatal(err)
	}
}
