package s3

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

func (p *program) ls() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List fenced objects, as aws s3 ls does",
		Long: `Lists the objects whose keys begin with PREFIX, with time (UTC) and size, as the
aws command does: keys with a "/" behind the prefix as one line, PRE, unless
--recursive. Deleted objects are not listed, a PRE may have nothing else below it.
Keys that are not plain text are quoted.

` + tokenHelp + `

Exits with 66 if there is a PREFIX and nothing below it; with 77 if objects are left
out: those that are damaged or have no ETag, and those that are not framed. Without
--legacy it only notices those of less than 64 bytes, and shows others as 64 bytes
smaller than they are: it would have to read the beginning of each, as it does with
--legacy.

With --json it prints a line for each:
  {"key":"reports/today.csv","etag":"9bb5…","size":1234,"modified":"2026-01-02T03:04:05Z"}
  {"prefix":"reports/2025/"}

` + connect.BucketHelp,
		Example: `  fenceproxy s3 ls reports/ --bucket app
  fenceproxy s3 ls --recursive --bucket app --no-token
  fenceproxy s3 ls reports/ --recursive --json --bucket app | jq -r 'select(.size==0).key'`,
	}
	connect.BucketFlags(cmd)
	tokenFlags(cmd, true)
	legacyFlag(cmd)
	recursive := cmd.Flags().BoolP("recursive", "r", false, "list all keys, also those with a / behind the prefix")
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return cli.Usage(cmd, "wants at most one argument, PREFIX, got %d", len(args))
		}
		prefix := strings.Join(args, "")
		if err := checkPrefix(cmd, prefix); err != nil {
			return err
		}
		session, err := p.openSession(cmd, "")
		if err != nil {
			return err
		}
		defer session.Close()
		return p.runLs(cmd.Context(), session, prefix, *recursive, *asJSON)
	}
	return cmd
}

func (p *program) runLs(ctx context.Context, session *session, prefix string, recursive, asJSON bool) (err error) {
	out := bufio.NewWriter(p.Out)
	defer func() {
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
	}()
	write := lister(out, prefix, recursive)
	if asJSON {
		write = listJSON(out)
	}
	var left leftOut
	listed := 0
	for info, err := range session.store.List(ctx, session.token, s3store.ListOptions{Prefix: prefix, Recursive: recursive}) {
		switch {
		case err != nil && info.Key != "":
			left.add(err)
			continue
		case err != nil:
			return session.ExplainStore(ctx, err)
		}
		listed++
		if err := write(info); err != nil {
			return err
		}
	}
	if err := left.explain(); err != nil {
		return err
	}
	if listed == 0 && prefix != "" {
		return cli.Fail(cli.ExitNotFound, "nothing in bucket %q begins with %q", session.Name, prefix)
	}
	return nil
}

// leftOut counts the objects that a listing leaves out.
type leftOut struct {
	unframed, others int
	first            error // of the others
}

func (l *leftOut) add(err error) {
	if errors.Is(err, layout.ErrBare) {
		l.unframed++
		return
	}
	l.others++
	if l.first == nil {
		l.first = err
	}
}

func (l *leftOut) explain() error {
	const remedy = "'fenceproxy s3 frame' frames them, --legacy lists them"
	switch {
	case l.unframed == 0 && l.others == 0:
		return nil
	case l.others == 0:
		return cli.Fail(cli.ExitDenied, "objects left out since they are not framed: %d; %s", l.unframed, remedy)
	case l.unframed == 0:
		return cli.Fail(cli.ExitDenied, "objects left out since they cannot be read: %d; the first: %w", l.others, l.first)
	}
	return cli.Fail(cli.ExitDenied, "objects left out since they cannot be read: %d; the first: %w; since they are not framed: %d; %s",
		l.others, l.first, l.unframed, remedy)
}

func isPrefix(info minio.ObjectInfo) bool { return info.ETag == "" && info.LastModified.IsZero() }

// lister prints as the aws command does: without recursion only what follows
// the last "/" of the prefix.
func lister(out io.Writer, prefix string, recursive bool) func(minio.ObjectInfo) error {
	folder := prefix[:strings.LastIndexByte(prefix, '/')+1]
	if recursive {
		folder = ""
	}
	return func(info minio.ObjectInfo) error {
		name := shownKey(strings.TrimPrefix(info.Key, folder))
		var err error
		if isPrefix(info) {
			_, err = fmt.Fprintf(out, "%30s %s\n", "PRE", name)
		} else {
			_, err = fmt.Fprintf(out, "%s %10d %s\n", timestamp(info.LastModified), info.Size, name)
		}
		return err
	}
}

func listJSON(out io.Writer) func(minio.ObjectInfo) error {
	return func(info minio.ObjectInfo) error {
		if isPrefix(info) {
			return cli.PrintJSON(out, map[string]string{"prefix": info.Key})
		}
		return cli.PrintJSON(out, documentOf(&info))
	}
}

// shownKey is a key in a line of text.
func shownKey(key string) string {
	if quoted := strconv.Quote(key); quoted[1:len(quoted)-1] != key {
		return quoted
	}
	return key
}
