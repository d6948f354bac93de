package s3

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv/s3link"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

const (
	// hugeUpload is what a put reads from its pipe: 19 parts of hugePart.
	hugeUpload = 300 << 20
	hugePart   = 16 << 20
	hugeParts  = (hugeUpload + layout.HeaderSize + hugePart - 1) / hugePart
	// uploadMemory is by how much an upload may grow a process, whatever its size.
	uploadMemory = 64 << 20
)

// TestS3PutProcess runs the built program: what only a process of its own shows.
func TestS3PutProcess(t *testing.T) {
	t.Parallel()
	program := clitest.Built(t)
	for name, f := range map[string]func(*testing.T, string){
		"killed": testS3PutKilled,
		"memory": testS3PutMemory,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, program)
		})
	}
}

// putting is a put that runs in a process.
type putting struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
}

// startPut starts a put of key that reads size bytes from a pipe.
func startPut(b *clitest.Pail, program, key string, size int64) *putting {
	b.T.Helper()
	p := &putting{cmd: exec.Command(program, "s3", "put", "-", key, "--bucket", b.Bucket)}
	p.cmd.Env = clitest.Invocation{Env: b.Env}.Environ()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = io.LimitReader(zeros{}, size), &p.out, &p.err
	clitest.Must(b.T, p.cmd.Start())
	b.T.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	return p
}

// ends waits for a put that succeeds.
func (p *putting) ends(t *testing.T) {
	t.Helper()
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, p.err.String())
	}
}

// peak is the most memory that the process has had at once so far, in bytes.
func (p *putting) peak(t *testing.T) int64 {
	t.Helper()
	return int64(clitest.Peak(t, p.cmd.Process.Pid) * (1 << 20))
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// await waits until the link has a request that a process sends.
func (p *putting) await(t *testing.T, held *s3link.Held) {
	t.Helper()
	select {
	case <-held.Taken():
	case <-time.After(time.Minute):
		t.Fatalf("not asked for within a minute: %s", p.err.String())
	}
}

// A process that is killed in the middle of an upload changes nothing that is
// seen, is in nobody's way, and what it leaves can be found and cleared.
func testS3PutKilled(t *testing.T, program string) {
	b := clitest.NewPail(t).Under(33)
	b.Put("k", "old")
	before := b.Stored("k")
	const done = hugeParts / 2
	held := b.Link.Hold(about(s3link.UploadPart), done+1)
	p := startPut(b, program, "k", hugeUpload)
	p.await(t, held)
	clitest.Must(t, p.cmd.Process.Kill())
	if err := p.cmd.Wait(); err == nil {
		t.Fatal("it has ended by itself")
	}
	if b.Stored("k") != before {
		t.Errorf("%q is another object", "k")
	}
	b.Holds("k", "old")

	next := startPut(b, program, "k", 1) // with the same token, and without a wait
	next.ends(t)
	b.Holds("k", "\x00")

	client := b.Server.Client(t)
	core, store := minio.Core{Client: client}, uploader(b, client)
	left, err := core.ListMultipartUploads(t.Context(), b.Bucket, "", "", "", "", 10)
	clitest.Must(t, err)
	if len(left.Uploads) != 1 || left.Uploads[0].Key != "k" {
		t.Fatalf("uploads that are left: %+v", left.Uploads)
	}
	parts, err := core.ListObjectParts(t.Context(), b.Bucket, "k", left.Uploads[0].UploadID, 0, 100)
	clitest.Must(t, err)
	if len(parts.ObjectParts) != done {
		t.Errorf("the server has %d parts, want %d", len(parts.ObjectParts), done)
	}
	for _, c := range []struct {
		age  time.Duration
		want int
	}{{time.Hour, 0}, {0, 1}, {0, 0}} {
		if n, err := store.AbortUploads(t.Context(), "", c.age); n != c.want || err != nil {
			t.Errorf("uploads older than %v: cleared %d, %v, want %d", c.age, n, err, c.want)
		}
	}
	left, err = core.ListMultipartUploads(t.Context(), b.Bucket, "", "", "", "", 10)
	if err != nil || len(left.Uploads) > 0 {
		t.Errorf("uploads that are left: %+v, %v", left.Uploads, err)
	}
	// The part that was under way arrives at last, for an upload that is gone: a
	// server may hang up on it before it has read it all.
	if status, answer, err := held.Deliver(t.Context()); err == nil && status != http.StatusNotFound {
		t.Errorf("delivered late: %d %s", status, answer)
	}
	b.Holds("k", "\x00")
}

func uploader(b *clitest.Pail, client *minio.Client) *s3store.Store {
	b.T.Helper()
	store, err := s3store.New(client, s3store.Config{Bucket: b.Bucket})
	clitest.Must(b.T, err)
	return store
}

// The memory of a process does not grow with what it uploads: measured when all
// but the last request has passed, against a put of one byte at the same place.
func testS3PutMemory(t *testing.T, program string) {
	b := clitest.NewPail(t).Under(33)
	last := about(s3link.CompleteMultipartUpload)
	if idle, large := putMemory(b, program, about(s3link.PutObject), 1), putMemory(b, program, last, hugeUpload); large-idle > uploadMemory {
		t.Errorf("an upload of %d MiB takes %.1f MiB above the %.1f of a put of one byte", hugeUpload>>20, mebibytes(large-idle), mebibytes(idle))
	} else {
		t.Logf("peak of a put of one byte: %.1f MiB, of %d MiB: %.1f more", mebibytes(idle), hugeUpload>>20, mebibytes(large-idle))
	}
	if n := b.Link.Count(s3link.UploadPart); n < hugeParts {
		t.Errorf("uploaded in %d parts", n)
	}
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// putMemory is the peak of a process that puts size bytes, when it has sent the
// last request that writes.
func putMemory(b *clitest.Pail, program string, last func(s3link.Request) bool, size int64) int64 {
	b.T.Helper()
	key := strconv.FormatInt(size, 10)
	held := b.Link.Hold(func(r s3link.Request) bool { return r.Key == key && last(r) }, 1)
	p := startPut(b, program, key, size)
	p.await(b.T, held)
	peak := p.peak(b.T)
	ctx, cancel := context.WithTimeout(b.T.Context(), time.Minute)
	defer cancel()
	status, answer, err := held.Deliver(ctx)
	if status != http.StatusOK || err != nil {
		b.T.Fatalf("delivered: %d %s, %v", status, answer, err)
	}
	held.Abandon() // the process sees a lost reply, and finds its write
	p.ends(b.T)
	info, err := b.Server.Client(b.T).StatObject(b.T.Context(), b.Bucket, key, minio.StatObjectOptions{})
	clitest.Must(b.T, err)
	if info.Size != size+layout.HeaderSize || strings.TrimSpace(p.out.String()) != info.ETag {
		b.T.Errorf("%d bytes, %s; the process says %s", info.Size, info.ETag, p.out.String())
	}
	return peak
}
