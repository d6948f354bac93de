package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/spf13/cobra"

	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

func (p *program) s3Ls() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List fenced objects, as aws s3 ls does",
		Long: `Lists the objects whose keys begin with PREFIX, with time (UTC) and size, as the
aws command does: keys with a "/" behind the prefix as one line, PRE, unless
--recursive. Deleted objects are not listed, a PRE may have nothing else below it.
Keys that are not plain text are quoted.

` + tokenHelp + `

Exits with 66 if there is a PREFIX and nothing below it; with 77 if objects are not
framed, which are left out. Without --legacy it only notices those of less than 64
bytes, and shows others as 64 bytes smaller than they are: it would have to read the
beginning of each, as it does with --legacy.

With --json it prints a line for each:
  {"key":"reports/today.csv","etag":"9bb5…","size":1234,"modified":"2026-01-02T03:04:05Z"}
  {"prefix":"reports/2025/"}

` + s3Help,
		Example: `  fenceproxy s3 ls reports/ --bucket app
  fenceproxy s3 ls --recursive --bucket app --no-token
  fenceproxy s3 ls reports/ --recursive --json --bucket app | jq -r 'select(.size==0).key'`,
	}
	s3Flags(cmd)
	tokenFlags(cmd, true)
	legacyFlag(cmd)
	recursive := cmd.Flags().BoolP("recursive", "r", false, "list all keys, also those with a / behind the prefix")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage(cmd, "wants at most one argument, PREFIX, got %d", len(args))
		}
		prefix := strings.Join(args, "")
		if err := checkPrefix(cmd, prefix); err != nil {
			return err
		}
		session, err := p.s3Session(cmd, "")
		if err != nil {
			return err
		}
		defer session.close()
		return p.runS3Ls(cmd.Context(), session, prefix, *recursive, *asJSON)
	}
	return cmd
}

func (p *program) runS3Ls(ctx context.Context, session *s3Session, prefix string, recursive, asJSON bool) (err error) {
	out := bufio.NewWriter(p.out)
	defer func() {
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
	}()
	write := lister(out, prefix, recursive)
	if asJSON {
		write = listJSON(out)
	}
	listed, unframed := 0, 0
	for info, err := range session.store.List(ctx, session.token, s3store.ListOptions{Prefix: prefix, Recursive: recursive}) {
		switch {
		case err != nil && info.Key != "":
			unframed++
			continue
		case err != nil:
			return session.explainStore(ctx, err)
		}
		listed++
		if err := write(info); err != nil {
			return err
		}
	}
	switch {
	case unframed > 0:
		return fail(exitDenied, "objects left out since they are not framed: %d; 'fenceproxy s3 frame' frames them, --legacy lists them", unframed)
	case listed == 0 && prefix != "":
		return fail(exitNotFound, "nothing in bucket %q begins with %q", session.name, prefix)
	}
	return nil
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
			return printJSON(out, map[string]string{"prefix": info.Key})
		}
		return printJSON(out, documentOf(&info))
	}
}

// shownKey is a key in a line of text.
func shownKey(key string) string {
	if quoted := strconv.Quote(key); quoted[1:len(quoted)-1] != key {
		return quoted
	}
	return key
}
