// Package child runs a program that is over, with all that it started, by a
// time that is set for it.
//
// Between this process and the program is a third, the warden:
//
//	Start ──────────── the process that holds a lock
//	  │ socket: limits, signals, stop ▼   ▲ started, stopped, exited
//	RunWarden ──────── the warden: owns the time limits, reaps all descendants
//	  │
//	program ────────── in a process group of its own
//	  └─ whatever it starts
//
// The program gets this process's standard streams and every other descriptor
// that is not closed on exec, themselves, not copies of what passes.
//
// # Guarantees
//
// Limits: the last limits that the warden was told hold whether or not this
// process runs. At Limits.Term the program's group gets SIGTERM, at Limits.Kill
// all its descendants get SIGKILL. So a process that hangs, or is stopped past
// its lease, does not keep the program from being ended in time.
//
// No orphan (Linux): the warden is the subreaper of all descendants
// (prctl(2), PR_SET_CHILD_SUBREAPER), so one that leaves the group and the
// session, as daemons do, becomes its child. It ends when it has no children
// left, and not before; what the program leaves behind when it exits gets
// SIGTERM, and SIGKILL after the grace. When this process dies, however it
// dies, all descendants get SIGKILL. When the warden dies, the program gets
// SIGKILL from the kernel (PR_SET_PDEATHSIG), and this process, a subreaper as
// well, kills the rest. Elsewhere than on Linux only the process group, and an
// orderly end of both, are covered.
//
// # Not guaranteed
//
// Processes that others start on the program's behalf (a daemon that it talks
// to: systemd, cron, a container engine, another machine) are nobody's
// descendants. A descendant that has become another user (sudo) can't be
// signalled: it is waited for, and reported as Stuck. One that does nothing but
// fork and exit outside the program's group may always be a step ahead. If this process and the
// warden are killed at the same time, only the program itself dies with them.
// A machine that stands still ends nothing until it goes on.
package child
