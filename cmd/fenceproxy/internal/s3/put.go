package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// garbagePercent is how much garbage an upload may gather, of what it uses.
const garbagePercent = 50

func (p *program) put() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "put FILE KEY",
		Short: "Write a fenced object from a file or from standard input",
		Long: `Writes FILE, or standard input if FILE is "-", as the object KEY, and prints its
ETag. Above 16 MiB it is uploaded in parts; of standard input at most 156 GiB. What
is seen of the object changes at once, or not at all.

` + tokenHelp + `

Exits with 75 if a condition of --if-match or --if-none-match is false, or another
write came first: nothing was written; with 74 if the store's answer was lost, so
that nobody knows whether it was.

With --json:
  {"key":"reports/today.csv","etag":"9bb5…","size":1234}

` + connect.BucketHelp,
		Example: `  fenceproxy s3 put today.csv reports/today.csv --bucket app
  pg_dump app | fenceproxy s3 put - dumps/app.sql --bucket app --content-type application/sql
  fenceproxy s3 put new.json state.json --bucket app --if-match "$etag" --metadata origin=nightly`,
	}
	connect.BucketFlags(cmd)
	tokenFlags(cmd, false)
	legacyFlag(cmd)
	flags := cmd.Flags()
	var o s3store.PutOptions
	flags.StringVar(&o.ContentType, "content-type", "", "media type (default: by FILE's name, or application/octet-stream)")
	flags.StringVar(&o.ContentEncoding, "content-encoding", "", "encoding, such as gzip")
	flags.StringVar(&o.CacheControl, "cache-control", "", "how long caches may keep it")
	metadata := flags.StringArray("metadata", nil, "NAME=VALUE that is stored with it; can be given more than once")
	flags.StringVar(&o.IfMatch, "if-match", "", "write only if the object has this ETag, '*' if there is one")
	absent := flags.Bool("if-none-match", false, "write only if there is no object")
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return cli.Usage(cmd, "wants two arguments, FILE and KEY, got %d", len(args))
		}
		if err := checkKey(cmd, args[1]); err != nil {
			return err
		}
		switch {
		case *absent && o.IfMatch != "":
			return cli.Usage(cmd, "--if-match and --if-none-match at once")
		case flags.Changed("if-match") && o.IfMatch == "":
			return cli.Usage(cmd, "--if-match names no ETag")
		case *absent:
			o.IfNoneMatch = "*"
		}
		var err error
		if o.UserMetadata, err = parseMetadata(cmd, *metadata); err != nil {
			return err
		}
		session, err := p.openSession(cmd, "")
		if err != nil {
			return err
		}
		defer session.Close()
		return p.runPut(cmd.Context(), session, args[0], args[1], o, *asJSON)
	}
	return cmd
}

func parseMetadata(cmd *cobra.Command, pairs []string) (map[string]string, error) {
	metadata := map[string]string{}
	for _, pair := range pairs {
		name, value, found := strings.Cut(pair, "=")
		if _, twice := metadata[name]; !found || name == "" || twice {
			return nil, cli.Usage(cmd, "--metadata %q is not NAME=VALUE, each name once", pair)
		}
		metadata[name] = value
	}
	return metadata, nil
}

func (p *program) runPut(ctx context.Context, session *session, path, key string, o s3store.PutOptions, asJSON bool) error {
	from, closeInput, err := p.input(path)
	if err != nil {
		return err
	}
	defer closeInput()
	if o.ContentType == "" && path != streamName {
		o.ContentType = mime.TypeByExtension(filepath.Ext(path))
	}
	// Two parts of 16 MiB are in memory; garbage of their size again need not be.
	defer debug.SetGCPercent(debug.SetGCPercent(garbagePercent))
	info, err := session.store.Put(ctx, session.token, key, from, -1, o)
	if err != nil {
		return explainWrite(ctx, session.Bucket, err)
	}
	if asJSON {
		return cli.PrintJSON(p.Out, struct {
			Key  string `json:"key"`
			ETag string `json:"etag"`
			Size int64  `json:"size"`
		}{key, info.ETag, info.Size})
	}
	_, err = fmt.Fprintln(p.Out, info.ETag)
	return err
}

// input opens a file for reading, or standard input.
func (p *program) input(path string) (r io.Reader, done func(), err error) {
	if path == streamName {
		return p.In, func() {}, nil
	}
	f, err := os.Open(path)
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && info.IsDir() {
			err = cli.Fail(cli.ExitFailure, "%s is a folder: give one file", path)
		}
		if err == nil {
			return f, func() { _ = f.Close() }, nil // it was only read
		}
		_ = f.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, cli.Fail(cli.ExitNotFound, "%w", err)
	}
	return nil, nil, err
}
