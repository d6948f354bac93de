package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// streamName stands for standard input or output where a file can be named.
const streamName = "-"

func (p *program) get() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get KEY FILE",
		Short: "Read a fenced object into a file or to standard output",
		Long: `Reads an object into FILE, or to standard output if FILE is "-". A file is only
replaced when all of the object has been read. Then the object's ETag is printed:
'fenceproxy s3 put --if-match' writes only while it is still the same.

` + tokenHelp + ` A token that
is current now may be no longer when you use what you read: only a write tells.

Exits with 66 if there is no such object.

With --json, which is for files:
  {"key":"reports/today.csv","etag":"9bb5…","size":1234,"modified":
   "2026-01-02T03:04:05Z","content_type":"text/csv","metadata":{"Origin":"nightly"}}

` + connect.BucketHelp,
		Example: `  fenceproxy s3 get reports/today.csv today.csv --bucket app
  fenceproxy s3 get reports/today.csv - --bucket app --no-token | head
  etag=$(fenceproxy s3 get state.json work.json --bucket app) && ./change work.json &&
    fenceproxy s3 put work.json state.json --bucket app --if-match "$etag"`,
	}
	connect.BucketFlags(cmd)
	tokenFlags(cmd, true)
	legacyFlag(cmd)
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return cli.Usage(cmd, "wants two arguments, KEY and FILE, got %d", len(args))
		}
		if err := checkKey(cmd, args[0]); err != nil {
			return err
		}
		if *asJSON && args[1] == streamName {
			return cli.Usage(cmd, "--json and the object would both be printed: give a FILE")
		}
		session, err := p.openSession(cmd, "")
		if err != nil {
			return err
		}
		defer session.Close()
		return p.runGet(cmd.Context(), session, args[0], args[1], *asJSON)
	}
	return cmd
}

// checkKey refuses what only looks like a key.
func checkKey(cmd *cobra.Command, key string) error {
	if key == "" {
		return cli.Usage(cmd, "KEY is empty")
	}
	return checkPrefix(cmd, key)
}

// checkPrefix refuses what only looks like the beginning of a key.
func checkPrefix(cmd *cobra.Command, prefix string) error {
	if strings.HasPrefix(prefix, "s3://") {
		return cli.Usage(cmd, "%q is a URL, not a key in the bucket: the bucket goes to --bucket", prefix)
	}
	return nil
}

// objectDocument is an object in JSON.
type objectDocument struct {
	Key         string            `json:"key"`
	ETag        string            `json:"etag"`
	Size        int64             `json:"size"`
	Modified    time.Time         `json:"modified"`
	ContentType string            `json:"content_type,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

func documentOf(info *minio.ObjectInfo) objectDocument {
	return objectDocument{info.Key, info.ETag, info.Size, info.LastModified.UTC(), info.ContentType, info.UserMetadata}
}

func (p *program) runGet(ctx context.Context, session *session, key, path string, asJSON bool) error {
	object, err := session.store.Get(ctx, session.token, key, s3store.GetOptions{})
	if err != nil {
		return session.ExplainStore(ctx, err)
	}
	defer object.Close()
	payload := payloadReader{session.Bucket, object, key}
	if path == streamName {
		_, err := io.Copy(p.Out, payload)
		return session.ExplainStore(ctx, err)
	}
	if err := replaceFile(path, payload); err != nil {
		return session.ExplainStore(ctx, err)
	}
	if asJSON {
		object.Info.Key = key
		return cli.PrintJSON(p.Out, documentOf(&object.Info))
	}
	_, err = fmt.Fprintln(p.Out, object.Info.ETag)
	return err
}

// payloadReader gives the errors of an object's body an exit code, which tells
// them from those of a file that it is written to.
type payloadReader struct {
	bucket *connect.Bucket
	object *s3store.Object
	key    string
}

func (r payloadReader) Read(b []byte) (int, error) {
	n, err := r.object.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = cli.Fail(cli.ExitUnreachable, "the store at %s: read %q: %w", r.bucket.Endpoint, r.key, err)
	}
	return n, err
}

// replaceFile makes a file of what it reads, all of it or nothing. What is no
// ordinary file, such as /dev/null or a pipe, is written to.
func replaceFile(path string, r io.Reader) error {
	mode := fs.FileMode(0)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return writeFile(path, os.O_WRONLY, r)
	default:
		mode = info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	part := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text())
	err = writeFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, r)
	if err == nil && mode != 0 {
		err = os.Chmod(part, mode)
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part) // if it is there
	}
	return err
}

func writeFile(path string, flags int, r io.Reader) error {
	f, err := os.OpenFile(path, flags, 0o666) //nolint:gosec // as umask has it: what is read is no secret of ours
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
