package poll

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

// ending is how a conversation ends.
type ending int

const (
	finish  ending = iota // the other end has said all, and hears all
	hangUp                // it closes
	reset                 // it resets
	cutOff                // somebody closes the connection of the loop's
	endings               // how many
)

// mostBytes is how long a conversation is at most.
const mostBytes = 24 << 10

// conversation is one connection whose owner sends back what comes, by steps and
// by itself, as chance has it, while others set deadlines and close.
type conversation struct {
	c    *Conn
	peer net.Conn
	end  ending
	size int // of what the other end says
	from int // of the pattern: no two conversations say the same
	cuts func(most int) int

	buf  [1 << 10]byte
	left []byte // what a step has left to the owner
}

// TestStress has many connections at once come, talk, and go in all ways: no byte
// is lost, doubled or another connection's, nobody waits for ever, and a
// connection that was closed touches no other's file descriptor.
func TestStress(t *testing.T) {
	t.Parallel()
	var loops [2]Loop
	const workers, rounds = 12, 60
	done := make(chan error, workers)
	for worker := range workers {
		go func() {
			done <- func() error {
				for round := range rounds {
					seed := uint64(worker*rounds + round)
					if err := converse(&loops[worker%2], &loops[round%2], seed); err != nil {
						return fmt.Errorf("seed %d: %w", seed, err)
					}
				}
				return nil
			}()
		}()
	}
	for range workers {
		if err := await(t, "conversations", done); err != nil {
			t.Error(err)
		}
	}
	for i := range loops {
		loops[i].wantsEnd(t)
	}
}

// dice are random numbers for several goroutines.
func dice(seed uint64) func(most int) int {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 1))
	return func(most int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(most)
	}
}

func converse(ours, theirs *Loop, seed uint64) error {
	d := dice(seed)
	cv := &conversation{end: ending(d(int(endings))), size: 1 + d(mostBytes), from: int(seed) << 16, cuts: d}
	network := networks[d(2)]
	a, b, err := connect(network)
	if err != nil {
		return err
	}
	if tcp, ok := b.(*net.TCPConn); ok && cv.end == reset {
		_ = tcp.SetLinger(0)
	}
	if cv.c, _, err = ours.Adopt(a); err != nil {
		return err
	}
	cv.peer = b
	if d(2) == 0 {
		if cv.peer, _, err = theirs.Adopt(b); err != nil {
			return err
		}
	}
	var (
		pests   sync.WaitGroup
		haunted error
	)
	over := make(chan struct{})
	owned := make(chan error, 1)
	go func() { owned <- cv.own() }()
	if d(2) == 0 {
		pests.Go(func() { cv.pester(over) })
	}
	if cv.end == cutOff {
		pests.Go(func() {
			for range d(64) {
				runtime.Gosched()
			}
			_ = cv.c.Close()
			haunted = cv.haunt()
		})
	}
	err = errors.Join(cv.talk(), <-owned)
	close(over)
	pests.Wait()
	return errors.Join(err, haunted, cv.haunt())
}

// own is the owner of the connection.
func (cv *conversation) own() error {
	defer cv.c.Close()
	for {
		err := cv.c.Idle(cv.step)
		if cv.again(err) {
			err = nil // a step may have left something
		}
		if err == nil && len(cv.left) == 0 {
			var n int
			n, err = cv.c.Read(cv.buf[:1+cv.cuts(len(cv.buf))])
			cv.left = cv.buf[:n]
		}
		for len(cv.left) > 0 && err == nil {
			var n int
			n, err = cv.c.Write(cv.left)
			if cv.left = cv.left[n:]; cv.again(err) {
				err = nil
			}
		}
		switch {
		case err == nil, cv.again(err):
		case cv.end == finish && !errors.Is(err, io.EOF):
			return fmt.Errorf("owner: %w", err)
		default:
			return nil
		}
	}
}

// again reports whether err is a deadline that has passed, and sets none.
func (cv *conversation) again(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = cv.c.SetDeadline(time.Time{})
		return true
	}
	return false
}

func (cv *conversation) step() bool {
	n, err := cv.c.TryRead(cv.buf[:1+cv.cuts(len(cv.buf))])
	if n == 0 {
		return err == nil
	}
	done := 0
	if cv.cuts(4) > 0 {
		done, err = cv.c.TryWrite(cv.buf[:n])
	}
	if done < n || err != nil {
		cv.left = cv.buf[done:n]
		return false
	}
	return cv.c.Drained()
}

// pester sets deadlines.
func (cv *conversation) pester(over <-chan struct{}) {
	for {
		at := time.Now().Add(time.Duration(cv.cuts(400)-100) * time.Microsecond)
		switch cv.cuts(4) {
		case 0:
			_ = cv.c.SetReadDeadline(at)
		case 1:
			_ = cv.c.SetWriteDeadline(at)
		case 2:
			_ = cv.c.SetDeadline(at)
		case 3:
			_ = cv.c.SetDeadline(time.Time{})
		}
		select {
		case <-over:
			return
		case <-time.After(time.Duration(cv.cuts(300)) * time.Microsecond):
		}
	}
}

// haunt uses the connection that was closed: none of it may reach another one
// which has its file descriptor by now.
func (cv *conversation) haunt() (err error) {
	for range 8 {
		_, errWrite := cv.c.TryWrite([]byte("ghost"))
		_, errRead := cv.c.TryRead(make([]byte, 64))
		for _, e := range []error{errWrite, errRead, cv.c.CloseWrite(), cv.c.Close()} {
			if !errors.Is(e, net.ErrClosed) && !errors.Is(e, io.EOF) && !errors.Is(e, errRead) {
				err = fmt.Errorf("after Close: %w", e)
			}
			if e == nil {
				err = errors.New("after Close: no error")
			}
		}
		runtime.Gosched()
	}
	return err
}

// talk is the other end.
func (cv *conversation) talk() error {
	defer cv.peer.Close()
	said := make(chan error, 1)
	go func() { said <- cv.say() }()
	heard, err := cv.hear()
	if errSaid := <-said; cv.end == finish {
		if err = errors.Join(err, errSaid); err == nil && heard != cv.size {
			err = fmt.Errorf("%d of %d bytes come back", heard, cv.size)
		}
		return err
	}
	if errors.Is(err, errOthers) {
		return err
	}
	return nil
}

var errOthers = errors.New("other bytes come back than were said")

// say says everything in segments, or, if it ends otherwise, a part.
func (cv *conversation) say() error {
	size := cv.size
	if cv.end == hangUp || cv.end == reset {
		size = cv.cuts(size)
	}
	b := pattern(cv.from, size)
	for len(b) > 0 {
		n := min(len(b), 1+cv.cuts(1<<cv.cuts(13)))
		if _, err := cv.peer.Write(b[:n]); err != nil {
			return err
		}
		if b = b[n:]; cv.cuts(4) == 0 {
			runtime.Gosched()
		}
	}
	if cv.end == hangUp || cv.end == reset {
		return cv.peer.Close()
	}
	return cv.peer.(interface{ CloseWrite() error }).CloseWrite()
}

// hear wants back what was said.
func (cv *conversation) hear() (heard int, err error) {
	b := make([]byte, 2<<10)
	for {
		n, err := cv.peer.Read(b[:1+cv.cuts(len(b))])
		if !bytes.Equal(b[:n], pattern(cv.from+heard, n)) {
			return heard, errOthers
		}
		if heard += n; errors.Is(err, io.EOF) {
			return heard, nil
		}
		if err != nil {
			return heard, err
		}
	}
}
