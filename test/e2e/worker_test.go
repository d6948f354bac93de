package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
	"github.com/fenceproxy/fenceproxy/locks"
	pgstore "github.com/fenceproxy/fenceproxy/stores/postgres"
)

// workerArg is the only argument of a test program that is to be a worker: what
// a child cannot inherit.
const workerArg = "e2e-worker"

// job is the first line that a worker reads. Then it acquires, claims and says
// "claimed"; and then it does what each further line says, and answers each:
//
//	deposit N   read the balance, add N, write it back; all under the token
//	begin N     read the balance, say "read", wait for a line, go on as deposit
//	look        read the balance
//	release     release the lease, and end
type job struct {
	Locks    string        `json:"locks"`
	Database string        `json:"database"`
	TTL      time.Duration `json:"ttl"`
	Resource string        `json:"resource"`
	Shared   bool          `json:"shared"`
	Toil     bool          `json:"toil"` // be a toiler instead
}

// work is the worker. It believes in its lease, and never looks whether it is lost.
func work(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("no job")
	}
	var j job
	if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	target, err := lockurl.Parse(j.Locks)
	if err != nil {
		return err
	}
	service, err := target.Open(ctx, j.TTL)
	if err != nil {
		return err
	}
	defer service.Close()
	pool, err := pgxpool.New(ctx, j.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		return err
	}
	if j.Toil {
		ctx, stop := context.WithCancel(ctx)
		go func() { // ends with the process
			defer stop()
			lines.Scan()
		}()
		(&toiler{out, service, store, j.TTL}).toil(ctx, j.Resource)
		return nil
	}
	acquire := service.Acquire
	if j.Shared {
		acquire = service.AcquireShared
	}
	lease, err := acquire(ctx, j.Resource)
	if err != nil {
		return err
	}
	if err := store.Claim(ctx, lease.Token()); err != nil {
		return err
	}
	fmt.Fprintf(out, "claimed %d\n", lease.Token().Number)
	for lines.Scan() {
		if err := obey(ctx, lines, out, store, lease); err != nil {
			return err
		}
	}
	return lines.Err()
}

func obey(ctx context.Context, lines *bufio.Scanner, out io.Writer, store *pgstore.Store, lease locks.Lease) error {
	var what string
	var amount int64
	_, _ = fmt.Sscan(lines.Text(), &what, &amount)
	if what == "release" {
		err := lease.Release(ctx)
		fmt.Fprintln(out, "released", errors.Is(err, locks.ErrLost), err == nil)
		return nil
	}
	between := func() error { return nil }
	if what == "begin" {
		between = func() error {
			fmt.Fprintln(out, "read")
			if !lines.Scan() {
				return errors.New("nobody says how it goes on")
			}
			return nil
		}
	}
	err := store.InTx(ctx, lease.Token(), func(ctx context.Context, tx pgx.Tx) error {
		if what == "look" {
			return tx.QueryRow(ctx, "select amount from balance").Scan(&amount)
		}
		return deposit(ctx, tx, lease.Token().Number, amount, between)
	})
	switch {
	case err == nil:
		fmt.Fprintln(out, "committed", amount)
	case errors.Is(err, guard.ErrStale):
		fmt.Fprintln(out, "stale", guard.OutcomeOf(err))
	default:
		return err
	}
	return nil
}

// worker is a worker's process.
type worker struct {
	process *localserver.Process
	stdin   io.Writer
	lines   chan string
}

// hire starts a worker. It knows nothing of this program's environment.
func hire(t *testing.T, j job) *worker {
	t.Helper()
	cmd := exec.Command(must(os.Executable())(t), workerArg)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stderr = os.Stderr
	in, stdin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	stdout, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdin, cmd.Stdout = in, out
	w := &worker{stdin: stdin, lines: make(chan string, 16)}
	w.process = must(localserver.Start(cmd, syscall.SIGKILL))(t)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(w.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			w.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		w.process.End(0)
		stdin.Close()
		<-read
		stdout.Close()
	})
	w.say(t, string(must(json.Marshal(j))(t)))
	return w
}

func (w *worker) say(t *testing.T, line string) {
	t.Helper()
	must(io.WriteString(w.stdin, line+"\n"))(t)
}

// hears waits for the worker's next line, and wants it to begin with prefix.
func (w *worker) hears(t *testing.T, prefix string) string {
	t.Helper()
	select {
	case line, ok := <-w.lines:
		rest, found := strings.CutPrefix(line, prefix)
		if !ok || !found {
			t.Fatalf("worker said %q (and has ended: %v), want %q", line, !ok, prefix)
		}
		return strings.TrimSpace(rest)
	case <-time.After(patience):
		t.Fatalf("worker does not say %q", prefix)
	}
	panic("unreachable")
}
