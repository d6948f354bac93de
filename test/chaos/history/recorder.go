package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/guard"
)

// extension is that of the files in a folder that are histories.
const extension = ".ops"

// Now is the time in nanoseconds since the machine started. It can be compared
// between processes of one machine, and nobody sets it.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the kernel has no such clock
	}
	return ts.Nano()
}

// After is the time a while later.
func After(at int64, d time.Duration) int64 { return at + int64(d) }

// Recorder appends to one file, whole lines at a time. It is safe for use by
// many goroutines.
type Recorder struct {
	name string
	file *os.File

	mu   sync.Mutex
	next int
	err  error
}

// Create makes the history of the process name in the folder dir. There must be
// none yet.
func Create(dir, name string) (*Recorder, error) {
	file, err := os.OpenFile(filepath.Join(dir, name+extension), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	return &Recorder{name: name, file: file}, nil
}

// Begin records that op begins now, and returns it with its ID and its time.
func (r *Recorder) Begin(op Op) Op {
	r.mu.Lock()
	r.next++
	op.ID = fmt.Sprintf("%s-%d", r.name, r.next)
	r.mu.Unlock()
	op.Began = Now()
	r.put(op)
	return op
}

// End records that op has ended now, with an outcome, and returns it.
func (r *Recorder) End(op Op, outcome guard.Outcome, reason string, err error) Op {
	op.Ended, op.Outcome, op.Reason = Now(), outcome, reason
	if err != nil {
		op.Error = err.Error()
	}
	r.put(op)
	return op
}

func (r *Recorder) put(op Op) {
	line, err := json.Marshal(op)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_, err = r.file.Write(append(line, '\n'))
	}
	if r.err == nil {
		r.err = err
	}
}

// Close ends the recording. It returns the first error there was: without all
// that happened a history proves nothing.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.file.Close(); r.err == nil {
		r.err = err
	}
	return r.err
}
