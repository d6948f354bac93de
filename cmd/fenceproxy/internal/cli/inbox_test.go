package cli

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A signal that comes while the inbox is taken over has ended the context or is
// there for whoever took it: one of the two, and never none.
func TestInboxIsTakenOver(t *testing.T) {
	t.Parallel()
	for range 2000 {
		ctx, in := openInbox(t.Context())
		var sent sync.WaitGroup
		sent.Go(func() { in.arrived <- syscall.SIGHUP })
		arrived := in.Take()
		ended := ctx.Err() != nil
		sent.Wait()
		select {
		case s := <-arrived:
			if s != syscall.SIGHUP || ended {
				t.Fatalf("got %v, context ended: %v", s, ended)
			}
		default:
			if !ended {
				t.Fatal("the signal is lost")
			}
		}
		if ended != (ctx.Err() != nil) {
			t.Fatal("the context ended later")
		}
		in.GiveBack()
		in.Close()
	}
}

func TestInbox(t *testing.T) {
	t.Parallel()
	ctx, in := openInbox(t.Context())
	defer in.Close()
	in.Listen(syscall.SIGUSR2)
	receive := func(from <-chan os.Signal) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGUSR2); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-from:
			if got != syscall.SIGUSR2 {
				t.Errorf("got %v", got)
			}
		case <-time.After(time.Minute):
			t.Fatal("the signal did not arrive")
		}
	}
	for range 2 { // taken over, given back, and taken over again
		receive(in.Take())
		in.GiveBack()
	}
	// The first two have no effect.
	for _, s := range []syscall.Signal{syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGHUP} {
		in.arrived <- s
	}
	<-ctx.Done()
	if by := (SignalError{}); !errors.As(context.Cause(ctx), &by) || by.Signal != syscall.SIGHUP {
		t.Errorf("the context was ended: %v", context.Cause(ctx))
	}
}
