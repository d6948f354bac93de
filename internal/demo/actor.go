package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
)

// player is a worker's process as the director sees it.
type player struct {
	name    actor
	process *localserver.Process
	stdin   *os.File
	reports chan report
	ended   chan struct{} // closed when reports is, and nothing reads any more
	stderr  *bytes.Buffer // to be read when the process has ended
}

// enter starts a worker's process and gives it its assignment. It runs until it
// ends by itself or leave is called.
func (s *story) enter(ctx context.Context, name actor, job assignment) (*player, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.config.Executable, s.config.WorkerArgs...)
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open pipe to %s: %w", name, err)
	}
	defer in.Close()
	stdout, out, err := os.Pipe()
	if err != nil {
		stdin.Close()
		return nil, fmt.Errorf("open pipe from %s: %w", name, err)
	}
	defer out.Close()
	p := &player{name: name, stdin: stdin, reports: make(chan report), ended: make(chan struct{}), stderr: &bytes.Buffer{}}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, p.stderr
	// A stopped process can be killed, but can't be asked to end.
	if p.process, err = localserver.Start(cmd, syscall.SIGKILL); err != nil {
		stdin.Close()
		stdout.Close()
		return nil, err
	}
	s.players = append(s.players, p)
	go p.listen(stdout)
	return p, sendLine(stdin, job)
}

// listen passes the reports on until the process has ended.
func (p *player) listen(stdout *os.File) {
	defer close(p.ended)
	defer close(p.reports)
	defer stdout.Close()
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var r report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			r = report{Step: stepFailed, Text: fmt.Sprintf("unreadable report %q", lines.Text())}
		}
		p.reports <- r
	}
}

// leave ends the process, if it has not ended, and frees what belongs to it.
func (p *player) leave() {
	p.process.End(0)
	p.stdin.Close()
	for range p.reports { // let listen end
	}
	<-p.ended
}

// errLeft says that a worker ended before it did what the story needs.
var errLeft = errors.New("ended too early")

// until shows the reports of a worker up to one of step, which it returns.
// While nothing comes it calls idle, if there is one, every second.
func (s *story) until(ctx context.Context, p *player, want step, idle func()) (report, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return report{}, context.Cause(ctx)
		case <-tick.C:
			if idle != nil {
				idle()
			}
		case r, ok := <-p.reports:
			if !ok {
				return report{}, fmt.Errorf("%s: %w: %s", p.name, errLeft, p.lastWords())
			}
			if r.Step == stepFailed {
				return r, fmt.Errorf("%s: %s", p.name, r.Text)
			}
			s.show(p.name, r)
			if r.Step == want {
				return r, nil
			}
		}
	}
}

// lastWords says how the process ended and what it complained about.
func (p *player) lastWords() string {
	how := "exit status 0"
	if err := p.process.Err(); err != nil {
		how = err.Error()
	}
	return strings.TrimSpace(how + " " + p.stderr.String())
}

// goOn is the line that a paused worker waits for.
func (p *player) goOn() error {
	if _, err := io.WriteString(p.stdin, "go on\n"); err != nil {
		return fmt.Errorf("tell %s to go on: %w", p.name, err)
	}
	return nil
}
