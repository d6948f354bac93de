package locks_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/locks"
)

// floorLocker grants number 5, or the next above a floor.
type floorLocker struct {
	locks.Locker
	floors []int64
	leases []*numberedLease
	lost   bool // its leases are
	err    error
}

type numberedLease struct {
	*fakeLease
	token guard.Token
}

func (l *numberedLease) Token() guard.Token { return l.token }

func (l *floorLocker) grant(mode guard.Mode, floor int64) (locks.Lease, error) {
	l.floors = append(l.floors, floor)
	if floor > 0 && l.err != nil {
		return nil, l.err
	}
	lease := &numberedLease{newFake().lease, guard.Token{Resource: "r", Number: max(5, floor+1), Mode: mode, Holder: "h", Issuer: "i"}}
	if l.lost {
		lease.cancel(errLost)
	}
	l.leases = append(l.leases, lease)
	return lease, nil
}

func (l *floorLocker) Acquire(context.Context, string) (locks.Lease, error) {
	return l.grant(guard.Exclusive, 0)
}

func (l *floorLocker) AcquireShared(context.Context, string) (locks.Lease, error) {
	return l.grant(guard.Shared, 0)
}

func (l *floorLocker) AcquireAbove(_ context.Context, _ string, floor int64) (locks.Lease, error) {
	return l.grant(guard.Exclusive, floor)
}

func (l *floorLocker) AcquireSharedAbove(_ context.Context, _ string, floor int64) (locks.Lease, error) {
	return l.grant(guard.Shared, floor)
}

func TestHeal(t *testing.T) {
	t.Parallel()
	mine := guard.Mark{Issuer: "i", Writer: 9, Holder: "other", Reader: 7}
	for _, test := range []struct {
		name   string
		locker floorLocker
		mark   guard.Mark
		refuse func(run int, lease locks.Lease, err error) error // nil: err
		floors []int64                                           // of the acquisitions
		want   error
	}{
		{name: "admitted", mark: guard.Mark{Issuer: "i", Writer: 4}, floors: []int64{0}},
		{name: "stale", mark: mine, floors: []int64{0, 9}},
		{name: "stale for a reader", mark: guard.Mark{Issuer: "i", Writer: 4, Reader: 11}, floors: []int64{0, 11}},
		{name: "duplicate", mark: guard.Mark{Issuer: "i", Writer: 5, Holder: "other"}, floors: []int64{0, 5}},
		{name: "foreign", mark: guard.Mark{Issuer: "j", Writer: 9}, floors: []int64{0}, want: guard.ErrForeign},
		{name: "lease is lost", locker: floorLocker{lost: true}, mark: mine, floors: []int64{0}, want: guard.ErrStale},
		{name: "cannot acquire again", locker: floorLocker{err: errRelease}, mark: mine, floors: []int64{0, 9}, want: errRelease},
		{
			name: "refused for ever", mark: mine, floors: []int64{0, 9, 9, 9}, want: guard.ErrStale,
			refuse: func(_ int, lease locks.Lease, _ error) error {
				return &guard.RefusedError{Reason: guard.ErrStale, Token: lease.Token(), Mark: mine}
			},
		},
		{
			name: "another token is refused", mark: guard.Mark{}, floors: []int64{0}, want: guard.ErrStale,
			refuse: func(int, locks.Lease, error) error {
				return &guard.RefusedError{Reason: guard.ErrStale, Token: guard.Token{Resource: "s", Number: 5}, Mark: mine}
			},
		},
		{
			name: "another error", mark: guard.Mark{}, floors: []int64{0}, want: errFn,
			refuse: func(int, locks.Lease, error) error { return errFn },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l, run := test.locker, 0
			err := locks.Heal(t.Context(), &l, "r", func(_ context.Context, lease locks.Lease) error {
				run++
				mark, err := guard.Admit(test.mark, lease.Token())
				test.mark = mark
				if test.refuse != nil {
					return test.refuse(run, lease, err)
				}
				return err
			})
			if !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Errorf("Heal = %v, want %v", err, test.want)
			}
			if !slices.Equal(l.floors, test.floors) {
				t.Errorf("acquired above %v, want %v", l.floors, test.floors)
			}
			for i, lease := range l.leases {
				if lease.releases != 1 {
					t.Errorf("lease %d was released %d times", i, lease.releases)
				}
			}
		})
	}
}

func TestHealShared(t *testing.T) {
	t.Parallel()
	l, mark := &floorLocker{}, guard.Mark{Issuer: "i", Writer: 9, Holder: "other", Reader: 20}
	err := locks.HealShared(t.Context(), l, "r", func(_ context.Context, lease locks.Lease) error {
		if lease.Token().Mode != guard.Shared {
			t.Errorf("mode %v", lease.Token().Mode)
		}
		_, err := guard.Admit(mark, lease.Token())
		return err
	})
	if err != nil || !slices.Equal(l.floors, []int64{0, 20}) {
		t.Errorf("HealShared = %v, acquired above %v", err, l.floors)
	}
}
