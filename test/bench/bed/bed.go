// Package bed stands in for a test where there is none: package testenv starts
// servers for one.
package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// Bed is a testing.TB outside of go test. What goes wrong is a panic, which Run
// makes an error of.
type Bed struct {
	testing.TB // for its unexported method; what is not here must not be called

	ctx      context.Context
	cleanups []func()
}

// failure is what Fatal panics with.
type failure struct{ error }

// Run runs f with a bed of its own, which has been cleaned up when it returns.
func Run(ctx context.Context, f func(b *Bed) error) (err error) {
	b := &Bed{ctx: ctx}
	defer func() { err = errors.Join(err, b.end()) }()
	return guarded(func() error { return f(b) })
}

// end cleans up, last things first, and all of them whatever goes wrong.
func (b *Bed) end() (err error) {
	for _, f := range slices.Backward(b.cleanups) {
		err = errors.Join(err, guarded(func() error { f(); return nil }))
	}
	return err
}

// guarded makes an error of a failure.
func guarded(f func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	return f()
}

// Must is for what cannot go on after an error.
func (b *Bed) Must(err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// TempDir makes a folder that goes with the bed.
func (b *Bed) TempDir() string {
	dir, err := os.MkdirTemp("", "bench-")
	b.Must(err)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Say tells on stderr how far it is.
func Say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// Context implements testing.TB.
func (b *Bed) Context() context.Context { return b.ctx }

// Cleanup implements testing.TB.
func (b *Bed) Cleanup(f func()) { b.cleanups = append(b.cleanups, f) }

// Helper implements testing.TB.
func (b *Bed) Helper() {}

// Name implements testing.TB.
func (b *Bed) Name() string { return "bench" }

// Failed implements testing.TB.
func (b *Bed) Failed() bool { return false }

// Log implements testing.TB.
func (b *Bed) Log(args ...any) { fmt.Fprintln(os.Stderr, args...) }

// Logf implements testing.TB.
func (b *Bed) Logf(format string, args ...any) { Say(format, args...) }

// Fatal implements testing.TB.
func (b *Bed) Fatal(args ...any) { panic(failure{errors.New(fmt.Sprint(args...))}) }

// Fatalf implements testing.TB.
func (b *Bed) Fatalf(format string, a ...any) { panic(failure{fmt.Errorf(format, a...)}) }

// Error implements testing.TB.
func (b *Bed) Error(args ...any) { b.Fatal(args...) }

// Errorf implements testing.TB.
func (b *Bed) Errorf(format string, a ...any) { b.Fatalf(format, a...) }

// Skip implements testing.TB.
func (b *Bed) Skip(args ...any) { b.Fatal(args...) }

// Skipf implements testing.TB.
func (b *Bed) Skipf(format string, a ...any) { b.Fatalf(format, a...) }
