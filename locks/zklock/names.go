package zklock

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
)

// entry is what the name of a node in a queue says:
//
//	fence-x-7QZ…-0100a2f4c1d40003-0000000042
//	      │  │          │             └ sequence number, by ZooKeeper
//	      │  │          └ session, in hex
//	      │  └ holder of the token: the name can be told from all others though
//	      │    nobody has seen ZooKeeper's reply
//	      └ x exclusive, s shared
type entry struct {
	name     string
	mode     guard.Mode
	holder   string
	session  uint64
	sequence int32
}

const (
	namePrefix = "fence-"
	// singleName is the node of a lock of a single node. It is no entry.
	singleName = "fence-single"
)

// entryPrefix is the name of an entry without its sequence number.
func entryPrefix(mode guard.Mode, holder string, session int64) string {
	return fmt.Sprintf("%s%v-%s-%016x-", namePrefix, mode, holder, uint64(session)) //nolint:gosec // an id, not a quantity
}

// parseEntry reports whether name is that of an entry, and reads it. Others may
// keep nodes of their own beside ours.
func parseEntry(name string) (entry, bool) {
	rest, ours := strings.CutPrefix(name, namePrefix)
	mode, rest, hasMode := strings.Cut(rest, "-")
	if !ours || !hasMode {
		return entry{}, false
	}
	e := entry{name: name}
	switch mode {
	case guard.Exclusive.String():
		e.mode = guard.Exclusive
	case guard.Shared.String():
		e.mode = guard.Shared
	default:
		return entry{}, false
	}
	// The sequence number may have a sign, so the name is read from its front.
	parts := strings.SplitN(rest, "-", 3)
	if len(parts) != 3 || parts[0] == "" {
		return entry{}, false
	}
	session, errSession := strconv.ParseUint(parts[1], 16, 64)
	sequence, errSequence := strconv.ParseInt(parts[2], 10, 32)
	if errSession != nil || errSequence != nil {
		return entry{}, false
	}
	e.holder, e.session, e.sequence = parts[0], session, int32(sequence)
	return e, fmt.Sprintf("%016x", session) == parts[1] && fmt.Sprintf("%010d", e.sequence) == parts[2]
}

// before reports whether e came before other, if neither is void.
func (e entry) before(other entry) bool { return e.sequence < other.sequence }

// void reports whether others may have the sequence number of e too, or have had
// it: the directory's numbers are used up. ZooKeeper's counter does not wrap: it
// stays at 2147483647. Only requests that come close behind others get numbers
// below zero.
func (e entry) void() bool { return e.sequence < 0 || e.sequence == math.MaxInt32 }

// number is the sequence number as a number of a token: from 1.
func (e entry) number() int64 { return int64(e.sequence) + 1 }

// excludes reports whether e must be gone before a later entry of the given
// mode is granted.
func (e entry) excludes(mode guard.Mode) bool {
	return e.mode == guard.Exclusive || mode == guard.Exclusive
}

// next is the entry that another one waits for: of those before it that exclude
// it, the youngest. Its name is "" if there is none.
type next struct {
	entry
	// only: there is no other one, nor will there be, for who comes later is
	// behind. So the lock is free when this one is gone, however it went.
	only bool
}

// ahead returns what own waits for; found reports whether own is among the names.
func ahead(names []string, own entry) (wait next, found bool) {
	for _, name := range names {
		e, ok := parseEntry(name)
		switch {
		case !ok:
		case e.name == own.name:
			found = true
		case e.before(own) && e.excludes(own.mode):
			wait.only = wait.name == ""
			if wait.only || wait.before(e) {
				wait.entry = e
			}
		}
	}
	return wait, found
}

// bell is the node that a holder makes and removes in the transaction that
// removes its entry: see place.rings. It is no entry.
func (e entry) bell() string { return namePrefix + "bell-" + e.holder }
