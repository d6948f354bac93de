package lockstest

import (
	"context"
	"errors"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

func testModes(s *suite, b Backend) {
	s.run("exclusive", func(f *fixture) {
		a, other := f.open(), f.open()
		first := f.must(a.Acquire)
		f.held(first)
		if first.Token().Mode != guard.Exclusive {
			f.Fatalf("token of an exclusive lock: %v", first.Token())
		}
		for _, try := range []acquireFunc{a.TryAcquire, a.TryAcquireShared, other.TryAcquire, other.TryAcquireShared} {
			f.refused(try)
		}
		f.entries(1)
		f.release(first)
		second := f.must(other.TryAcquire)
		f.rises(first, second)
		f.release(second)
		f.entries(0)
	})

	s.run("shared", func(f *fixture) {
		a, other := f.open(), f.open()
		readers := []locks.Lease{f.must(a.AcquireShared), f.must(a.TryAcquireShared), f.must(other.AcquireShared)}
		for _, r := range readers {
			f.held(r)
			if r.Token().Mode != guard.Shared {
				f.Fatalf("token of a shared lock: %v", r.Token())
			}
		}
		f.entries(3)
		for _, r := range readers {
			f.refused(a.TryAcquire)
			f.refused(other.TryAcquire)
			f.release(r)
		}
		writer := f.must(other.TryAcquire)
		for _, r := range readers {
			f.rises(r, writer)
		}
		f.release(writer)
		f.rises(writer, f.must(a.TryAcquireShared))
	})

	s.run("not re-entrant", func(f *fixture) {
		a := f.open()
		lease := f.must(a.Acquire)
		got := make(chan result, 1)
		f.start(f.ctx, "second", a.Acquire, got)
		f.entries(2)
		f.nothing(got)
		f.release(lease)
		second := f.granted(got)
		if second.lease.Token().Holder == lease.Token().Holder {
			f.Fatal("two acquisitions of one locker have the same holder")
		}
		f.rises(lease, second.lease)
		f.release(second.lease)
	})
}

func testNames(s *suite, b Backend) {
	s.run("nasty", func(f *fixture) {
		locker := f.open()
		var leases []locks.Lease
		for _, name := range nastyNames(locks.NewID()) {
			f := f.named(name)
			lease := f.must(locker.TryAcquire) // so it is none of the others
			f.refused(locker.TryAcquireShared)
			if n := f.service.Entries(f, name); n != 1 {
				f.Fatalf("%q has %d entries", name, n)
			}
			leases = append(leases, lease)
		}
		for _, lease := range leases {
			f := f.named(lease.Token().Resource)
			f.release(lease)
			f.entries(0)
		}
	})

	s.run("neighbours", func(f *fixture) {
		a, other := f.open(), f.open()
		id := locks.NewID()
		names := []string{id + "orders", id + "orders/eu", id + "orders/", id + "{orders}", id + "orders{eu}", "\u65e5\u672c" + id}
		names = append(names, id+nameOf(guard.MaxResourceLen-len(id)-3)+"/eu", id+nameOf(guard.MaxResourceLen-len(id)))
		got := make(chan result, len(names))
		var held []locks.Lease
		// Each is held, and waited for by one more than the one before.
		for i, name := range names {
			f := f.named(name)
			held = append(held, f.must(a.TryAcquire))
			for range i {
				ctx, cancel := context.WithCancel(f.ctx)
				f.Cleanup(cancel)
				f.start(ctx, name, other.Acquire, got)
			}
			f.entries(1 + i)
		}
		for i, name := range names {
			f := f.named(name)
			f.entries(1 + i)
			f.held(held[i])
			f.nothing(got)
			f.release(held[i])
			for range i {
				next := f.granted(got)
				if next.name != name {
					f.Fatalf("a release of %q granted %q", name, next.name)
				}
				f.rises(held[i], next.lease)
				f.release(next.lease)
			}
			f.entries(0)
		}
	})

	s.run("refused", func(f *fixture) {
		a := f.open()
		for _, name := range []string{"", string(make([]byte, 1)), "a\nb", "a\x7f", "a\u0085", "\xff", nameOf(256)} {
			for _, acquire := range []acquireFunc{a.Acquire, a.AcquireShared, a.TryAcquire, a.TryAcquireShared} {
				lease, err := acquire(f.ctx, name)
				if lease != nil || !errors.Is(err, guard.ErrMalformed) {
					f.Errorf("acquire %q = %v, %v; want ErrMalformed", name, lease, err)
				}
			}
		}
	})
}

// nastyNames are names of resources that are easy to confuse with each other
// or with what a back-end makes of them.
func nastyNames(unique string) []string {
	names := []string{
		"/", "//", "a/b", "a/b/", "/a/b", "a/b/x/", ".", "..", "../..", ".issuer", ".dead", ".dead/x",
		"{", "}", "{a}", "{a}b", "a{b}c", "{}", "{{a}}", "a b", " a", "a ", "a:b", "a,b", "a=b", "a%b", "a%2Fb", "%", "%2F",
		"*", "?", "[a]", "\\", "'", `"`, "$HOME", "a\u00a0b", "\u65e5\u672c\u8a9e", "\U0001f512", "e\u0301", "\u00e9", "sha256=",
	}
	for i := range names {
		names[i] = unique + names[i]
	}
	// As long as a name may be, alike in all but the last byte, and of bytes
	// that an encoding makes longer.
	for _, c := range []string{"a", "b", "/", "{"} {
		names = append(names, unique+nameOf(guard.MaxResourceLen-len(unique)-1)+c)
	}
	slashes := make([]byte, guard.MaxResourceLen-len(unique))
	for i := range slashes {
		slashes[i] = '/'
	}
	names = append(names, unique+string(slashes), unique+string(slashes[1:])+"{")
	// Those that say which file they would be if nobody encoded them.
	return append(names, unique, ".."+unique, "."+unique, "/"+unique, "../"+unique)
}

func nameOf(n int) string {
	name := make([]byte, n)
	for i := range name {
		name[i] = 'n'
	}
	return string(name)
}
