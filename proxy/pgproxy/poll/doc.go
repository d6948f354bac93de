// Package poll waits for connections by a loop of its own around epoll, and lets
// short work run on that loop.
//
// A proxy that answers thousands of short requests spends its time in system
// calls and in waking threads. With the connections of package net, a message
// costs a read that finds nothing, a turn through the scheduler, and often the
// wake-up of another thread. Here the thread that learns of a message reads it
// and writes it on: an owner that waits for more gives its connection a step
// (see [Conn.Idle]), and is itself woken only when the step says so. So what is
// short and simple stays on the loop, and everything else is written as blocking
// code in a goroutine.
//
// A [Conn] is a [net.Conn]. On systems without epoll [Loop.Adopt] takes nothing.
package poll
