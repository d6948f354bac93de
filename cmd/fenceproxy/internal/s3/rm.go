package s3

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/guard"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

func (p *program) rm() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm KEY...",
		Short: "Delete fenced objects",
		Long: `Deletes objects, and prints a line for each. What stays of each is a tombstone of 60
bytes, which these commands do not show: without it, a write that an old holder
sent before could create the object again. So there is no error if there is no
object, and that key gets a tombstone too.

With --recursive the argument is a prefix that ends in "/", or '' for all of the
bucket. It goes on after an object that cannot be deleted, unless the token is no
longer current.

` + tokenHelp + `

Exits with 75 if the condition of --if-match is false, with 74 if the store's
answer was lost, so that nobody knows whether it was deleted.

` + connect.BucketHelp,
		Example: `  fenceproxy s3 rm reports/today.csv reports/yesterday.csv --bucket app
  fenceproxy s3 rm --recursive reports/2025/ --bucket app --dry-run`,
	}
	connect.BucketFlags(cmd)
	tokenFlags(cmd, false)
	legacyFlag(cmd)
	flags := cmd.Flags()
	var r removal
	flags.BoolVarP(&r.recursive, "recursive", "r", false, "delete all objects whose keys begin with the argument")
	flags.BoolVar(&r.dryRun, "dry-run", false, "only print what would be deleted")
	flags.StringVar(&r.ifMatch, "if-match", "", "delete only if the object has this ETag, '*' if there is one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := r.check(cmd, args); err != nil {
			return err
		}
		if flags.Changed("if-match") && r.ifMatch == "" {
			return cli.Usage(cmd, "--if-match names no ETag")
		}
		session, err := p.openSession(cmd, "")
		if err != nil {
			return err
		}
		defer session.Close()
		return p.runRm(cmd.Context(), session, args, r)
	}
	return cmd
}

// removal is what s3 rm has to do.
type removal struct {
	recursive, dryRun bool
	ifMatch           string
}

func (r *removal) check(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return cli.Usage(cmd, "KEY is missing: which object?")
	case r.recursive && len(args) > 1:
		return cli.Usage(cmd, "--recursive wants one prefix, got %d", len(args))
	case r.ifMatch != "" && (r.recursive || len(args) > 1):
		return cli.Usage(cmd, "--if-match is for one object")
	case r.recursive && args[0] == "":
		return nil
	case r.recursive && !strings.HasSuffix(args[0], "/"):
		return cli.Usage(cmd, "the prefix does not end in /: %q is also that of %q", args[0], args[0]+"-other")
	}
	for _, key := range args {
		if err := checkKey(cmd, key); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) runRm(ctx context.Context, session *session, args []string, r removal) error {
	if r.ifMatch != "" && !r.dryRun {
		err := session.store.Delete(ctx, session.token, args[0], s3store.DeleteOptions{IfMatch: r.ifMatch})
		return p.removed(ctx, session, args[0], err)
	}
	keys := slices.Values(args)
	var listing error
	if r.recursive {
		keys = session.below(ctx, args[0], &listing)
	}
	if r.dryRun {
		for key := range keys {
			fmt.Fprintln(p.Out, "(dry run) delete:", shownKey(key))
		}
	} else if err := p.removeAll(ctx, session, keys); err != nil {
		return err
	}
	return session.ExplainStore(ctx, listing)
}

// below yields the keys of the objects with a prefix, and sets failed if not all
// could be listed.
func (s *session) below(ctx context.Context, prefix string, failed *error) iter.Seq[string] {
	return func(yield func(string) bool) {
		for info, err := range s.store.List(ctx, s.token, s3store.ListOptions{Prefix: prefix, Recursive: true}) {
			if err != nil {
				if *failed == nil {
					*failed = err
				}
				continue
			}
			if !yield(info.Key) {
				return
			}
		}
	}
}

// removed says that a key was deleted, or why not.
func (p *program) removed(ctx context.Context, session *session, key string, err error) error {
	if err != nil {
		return explainWrite(ctx, session.Bucket, err)
	}
	_, err = fmt.Fprintln(p.Out, "delete:", shownKey(key))
	return err
}

// removeAll deletes keys, and tells of each that could not be deleted. The error
// is one of them: the first, or the first that leaves it open.
func (p *program) removeAll(ctx context.Context, session *session, keys iter.Seq[string]) error {
	var worst error
	done, failed := 0, 0
	for key, err := range session.store.DeleteMany(ctx, session.token, keys) {
		if ctx.Err() != nil {
			break
		}
		overtaken := lostToken(err)
		if err = p.removed(ctx, session, key, err); err == nil {
			done++
			continue
		}
		failed++
		if worst == nil {
			worst = err
		} else {
			if codeOf(ctx, err) == cli.ExitUnknown && codeOf(ctx, worst) != cli.ExitUnknown {
				worst, err = err, worst
			}
			p.Tell(ctx, err)
		}
		if overtaken {
			break
		}
	}
	var bySignal cli.SignalError
	switch {
	case errors.As(context.Cause(ctx), &bySignal):
		return &cli.FinalError{Code: cli.ExitSignal + int(bySignal.Signal), Err: fmt.Errorf("%w; deleted so far: %d, and perhaps some that are not listed", bySignal, done)}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failed+done > 1 && worst != nil:
		return cli.Fail(codeOf(ctx, worst), "deleted: %d, not deleted: %d; %w", done, failed, worst)
	}
	return worst
}

func codeOf(ctx context.Context, err error) int {
	code, _ := cli.Explain(ctx, err)
	return code
}

// lostToken reports whether an error says that the token is good for nothing any
// more, whatever the key.
func lostToken(err error) bool {
	return errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrDuplicate) || errors.Is(err, guard.ErrForeign)
}
