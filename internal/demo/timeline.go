package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Timeline prints what happens as it happens: when, who, under which token,
// what. It is safe for use by many goroutines.
type Timeline struct {
	mu     sync.Mutex
	out    io.Writer
	start  time.Time
	colour bool
	live   bool
	ticked bool // a progress line stands on the terminal
}

// NewTimeline starts the clock. With colour, lines are coloured by ANSI
// escapes; with live, progress is shown on one line that is overwritten.
func NewTimeline(out io.Writer, colour, live bool) *Timeline {
	return &Timeline{out: out, start: time.Now(), colour: colour, live: live}
}

// Elapsed is the time since the clock was started.
func (t *Timeline) Elapsed() time.Duration { return time.Since(t.start) }

type actor string

const (
	director actor = "demo"
	first    actor = "worker 1"
	second   actor = "worker 2"
)

// tone is a colour: of whoever acts, or of what it means.
type tone string

const (
	plain  tone = ""
	bold   tone = "1"
	dim    tone = "2"
	yellow tone = "33"
	cyan   tone = "36"
	green  tone = "1;32"
	red    tone = "1;31"
)

func (a actor) tone() tone {
	switch a {
	case first:
		return yellow
	case second:
		return cyan
	case director:
	}
	return dim
}

func (t *Timeline) paint(tone tone, text string) string {
	if !t.colour || tone == plain {
		return text
	}
	return "\x1b[" + string(tone) + "m" + text + "\x1b[0m"
}

// say prints one event. number is the token's, 0 for none.
func (t *Timeline) say(who actor, number int64, tone tone, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	fmt.Fprintln(t.out, t.line(who, number, tone, fmt.Sprintf(format, args...)))
}

// waiting shows the second worker's progress while it waits: on a terminal in
// place, otherwise as a line.
func (t *Timeline) waiting(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	line := t.line(second, 0, dim, "waits: "+fmt.Sprintf(format, args...))
	if !t.live {
		fmt.Fprintln(t.out, line)
		return
	}
	fmt.Fprint(t.out, line)
	t.ticked = true
}

func (t *Timeline) line(who actor, number int64, tone tone, text string) string {
	token := "-"
	if number > 0 {
		token = fmt.Sprintf("token %d", number)
	}
	return fmt.Sprintf("%6.2f s  %s  %-9s  %s", t.Elapsed().Seconds(), t.paint(who.tone(), fmt.Sprintf("%-8s", who)), token, t.paint(tone, text))
}

// heading prints a title between the rounds.
func (t *Timeline) heading(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	fmt.Fprintf(t.out, "\n%s\n%s\n", t.paint(bold, text), strings.Repeat("─", len([]rune(text))))
}

// erase takes a progress line off the terminal. Callers hold mu.
func (t *Timeline) erase() {
	if t.ticked {
		fmt.Fprint(t.out, "\r\x1b[K")
		t.ticked = false
	}
}
