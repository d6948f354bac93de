package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

// rewriteHelp is what the commands that write objects again say of it.
func rewriteHelp(done string) string {
	return `

It looks at each key by a request, and writes those that are to be ` + done + `; how far
it has come is told on standard error. It goes on after a key that could not be done,
unless the token is no longer current. It may be stopped at any time: started again,
it skips what is done.

` + tokenHelp + ` --dry-run needs none.

With --json:
  {"changed":12,"skipped":3,"failed":0,"bytes":4096}

` + connect.BucketHelp
}

// rewrite is a command that writes the objects below a prefix again.
type rewrite struct {
	program *program

	does, done string // "frame", "framed"
	risk       string
	about      string // what is about to be changed
	wanted     func(layout.State) bool
	run        func(ctx context.Context, session *session, report func(s3store.Progress)) error

	dryRun, yes, asJSON *bool
}

func (p *program) rewriteFlags(cmd *cobra.Command) *rewrite {
	connect.BucketFlags(cmd)
	tokenFlags(cmd, false)
	return &rewrite{
		program: p,
		dryRun:  cmd.Flags().Bool("dry-run", false, "only count what would be changed"),
		yes:     cli.YesFlag(cmd), asJSON: cli.JSONFlag(cmd),
	}
}

// start does what the command line says; the token is the one for resource.
func (r *rewrite) start(cmd *cobra.Command, prefix, resource string) error {
	if err := checkPrefix(cmd, prefix); err != nil {
		return err
	}
	ctx := cmd.Context()
	meter := newMeter(r.program.Err, r.done)
	if *r.dryRun {
		bucket, err := connect.BucketOf(cmd, r.program.Env)
		if err != nil {
			return err
		}
		defer bucket.Close()
		last, err := survey(ctx, bucket, prefix, r.wanted, meter.show)
		meter.clear()
		if err != nil {
			return bucket.ExplainStore(ctx, err)
		}
		return r.print("would be "+r.done, last)
	}
	session, err := r.program.openSession(cmd, resource)
	if err != nil {
		return err
	}
	defer session.Close()
	now := fmt.Sprintf("\n%s in bucket %q is about to be %s, under the token of %q.", r.about, session.Name, r.done, session.token.Resource)
	if err := r.program.Confirm(ctx, cmd, *r.yes, r.risk+now); err != nil {
		return err
	}
	last, err := r.work(ctx, session, meter)
	meter.clear()
	if err != nil {
		return r.explain(ctx, session, last, err)
	}
	return r.print(r.done, last)
}

var errOvertaken = errors.New("token is no longer current")

// work runs the command until it is done, or the token is refused for good.
func (r *rewrite) work(ctx context.Context, session *session, meter *meter) (last s3store.Progress, err error) {
	var overtaken error
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err = r.run(ctx, session, func(now s3store.Progress) {
		last = now
		if now.Err != nil {
			meter.clear()
			fmt.Fprintf(r.program.Err, "%s %s: %v\n", r.does, shownKey(now.Key), now.Err)
			if lostToken(now.Err) {
				overtaken = now.Err
				stop(errOvertaken)
			}
		}
		meter.show(now)
	})
	if overtaken != nil {
		return last, overtaken
	}
	return last, err
}

func (r *rewrite) explain(ctx context.Context, session *session, last s3store.Progress, err error) error {
	far := fmt.Sprintf("so far %s; start it again, and it skips what is done", r.sum(r.done, last))
	var bySignal cli.SignalError
	if errors.As(context.Cause(ctx), &bySignal) {
		return &cli.FinalError{Code: cli.ExitSignal + int(bySignal.Signal), Err: fmt.Errorf("%w; %s", bySignal, far)}
	}
	err = session.ExplainStore(ctx, err)
	return cli.Fail(codeOf(ctx, err), "%w; %s", err, far)
}

func (r *rewrite) sum(done string, p s3store.Progress) string {
	return fmt.Sprintf("%s %s: %d (%s), skipped: %d, failed: %d", "keys", done, p.Changed, bytesText(p.Bytes), p.Skipped, p.Failed)
}

func (r *rewrite) print(done string, p s3store.Progress) error {
	if *r.asJSON {
		return cli.PrintJSON(r.program.Out, struct {
			Changed int   `json:"changed"`
			Skipped int   `json:"skipped"`
			Failed  int   `json:"failed"`
			Bytes   int64 `json:"bytes"`
		}{p.Changed, p.Skipped, p.Failed, p.Bytes})
	}
	_, err := fmt.Fprintln(r.program.Out, r.sum(done, p))
	return err
}

// bytesText is a size for people.
func bytesText(n int64) string {
	const unit = 1 << 10
	if n < unit {
		return strconv.FormatInt(n, 10) + " B"
	}
	size, at := float64(n)/unit, 0
	for size >= unit && at < 4 {
		size, at = size/unit, at+1
	}
	return fmt.Sprintf("%.1f %ciB", size, "KMGTP"[at])
}

// meter tells how far a command has come: at a terminal by one line that
// changes, elsewhere by a line every so often.
type meter struct {
	out   io.Writer
	live  bool
	done  string
	every time.Duration
	last  time.Time
	shown bool
}

func newMeter(out io.Writer, done string) *meter {
	m := &meter{out: out, done: done, every: 10 * time.Second, last: time.Now()}
	if f, ok := out.(*os.File); ok && cli.IsTerminal(f) {
		m.live, m.every = true, 200*time.Millisecond
	}
	return m
}

const clearLine = "\r\x1b[K"

func (m *meter) show(p s3store.Progress) {
	if time.Since(m.last) < m.every {
		return
	}
	m.last = time.Now()
	line := fmt.Sprintf("%s: %d (%s), skipped: %d, failed: %d, at %s", m.done, p.Changed, bytesText(p.Bytes), p.Skipped, p.Failed, shownKey(p.Key))
	if !m.live {
		fmt.Fprintln(m.out, line)
		return
	}
	if key := []rune(line); len(key) > 79 { // a line that wraps cannot be cleared
		line = string(key[:78]) + "…"
	}
	fmt.Fprint(m.out, clearLine+line)
	m.shown = true
}

// clear makes room for other lines.
func (m *meter) clear() {
	if m.shown {
		fmt.Fprint(m.out, clearLine)
		m.shown = false
	}
}
