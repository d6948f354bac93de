package pgproxy

import (
	"bytes"
	"context"
	"flag"
	"hash/crc32"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

var copySize = flag.Int64("copy-mib", 64, "MiB that TestCopyMemory copies in and out")

// flow is a stream of rows of 1 KiB, written or read, which looks at the heap
// now and then.
type flow struct {
	left int64 // to be read
	sum  uint32
	size int64
	row  []byte
	rest []byte
	peak uint64
}

func (f *flow) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		if f.left <= 0 {
			return 0, io.EOF
		}
		if f.row == nil {
			f.row = append([]byte("1\t"), bytes.Repeat([]byte("v"), 1<<10-2)...)
			f.row[len(f.row)-1] = '\n'
		}
		f.row[2] = 'a' + byte(f.left>>10%26)
		f.rest = f.row
		f.left -= int64(len(f.row))
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	_, _ = f.Write(p[:n])
	return n, nil
}

func (f *flow) Write(p []byte) (int, error) {
	const interval = 4 << 20
	if f.size/interval != (f.size+int64(len(p)))/interval {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		f.peak = max(f.peak, m.HeapInuse)
	}
	f.size += int64(len(p))
	f.sum = crc32.Update(f.sum, crc32.IEEETable, p)
	return len(p), nil
}

// copyBoth copies in and out again.
func copyBoth(t *testing.T, conn *pgconn.PgConn) (in, out *flow, tookIn, tookOut time.Duration) {
	t.Helper()
	in, out = &flow{left: *copySize << 20}, &flow{}
	start := time.Now()
	tag, err := conn.CopyFrom(t.Context(), in, "COPY big FROM STDIN")
	if err != nil {
		t.Fatal(err)
	}
	tookIn, start = time.Since(start), time.Now()
	if _, err := conn.CopyTo(t.Context(), out, "COPY big TO STDOUT"); err != nil {
		t.Fatal(err)
	}
	tookOut = time.Since(start)
	if out.size != in.size || out.sum != in.sum || tag.RowsAffected() != in.size>>10 {
		t.Errorf("%d bytes of sum %x were copied in as %d rows, and %d of sum %x out", in.size, in.sum, tag.RowsAffected(), out.size, out.sum)
	}
	return in, out, tookIn, tookOut
}

// TestCopyMemory: a COPY in or out of any size takes no memory. Not parallel,
// since it looks at the heap, in which client and proxy are together.
func TestCopyMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // what is in use is to be little more than what is needed
	sc := newScene(t, testenv.Postgres(t), Config{Logger: slog.New(slog.DiscardHandler)})
	sc.exec(sc.connect(sc.url), "CREATE UNLOGGED TABLE big (id int, v text)")
	for _, way := range []struct{ name, dsn string }{{"direct", sc.url}, {"proxy", sc.via(sc.token(1).String())}} {
		sc.exec(sc.connect(sc.url), "TRUNCATE big")
		conn, err := pgconn.Connect(t.Context(), way.dsn)
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		in, out, tookIn, tookOut := copyBoth(t, conn)
		_ = conn.Close(context.Background())
		grown := (int64(max(in.peak, out.peak)) - int64(before.HeapInuse)) >> 10
		rate := func(took time.Duration) float64 { return float64(in.size) / 1e6 / took.Seconds() }
		t.Logf("%s: %d MiB in at %.0f MB/s, out at %.0f MB/s; heap grew by %d KiB", way.name, *copySize, rate(tookIn), rate(tookOut), grown)
		if grown > 8<<10 {
			t.Errorf("%s: the heap grew by %d KiB", way.name, grown)
		}
	}
}
