package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/internal/lockurl"
)

func (d *lockDoctor) zooKeeper(ctx context.Context) error {
	answered := 0
	var low, high time.Duration
	var failed error
	for _, host := range d.target.Hosts() {
		l, h, err := zooKeeperBounds(ctx, d.target, host)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			failed = err
			d.addOf(host, "server", levelWarning, "start it, or leave it out of the URL", "opens no session: %v", cli.Innermost(err))
			continue
		}
		answered++
		low, high = max(low, l), max(high, h)
		d.zooKeeperServer(ctx, host)
	}
	if answered == 0 {
		return failed
	}
	d.bounds(low, high)
	d.add("clock", levelOK, "", "of no matter: numbers are those of changes, and the leader counts how long sessions last")
	return nil
}

// zooKeeperServer tells what srvr says, the one command of four letters that a
// server answers unless it was told not to.
func (d *lockDoctor) zooKeeperServer(ctx context.Context, host string) {
	text, err := fourLetters(ctx, d.target, host, "srvr")
	if err != nil {
		d.addOf(host, "server", levelNote, "", "opens sessions; what it is cannot be told: %v", cli.Innermost(err))
		return
	}
	version, mode := "unknown", "unknown"
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "Zookeeper version: "); ok {
			version, _, _ = strings.Cut(rest, "-")
		}
		if rest, ok := strings.CutPrefix(line, "Mode: "); ok {
			mode = rest
		}
	}
	d.addOf(host, "server", levelOK, "", "ZooKeeper %s, %s", strings.TrimSpace(version), strings.TrimSpace(mode))
}

func fourLetters(ctx context.Context, target *lockurl.Target, host, command string) (string, error) {
	conn, err := target.DialHost(ctx, host)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(connect.AnswerLimit)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, 64<<10))
	switch {
	case err != nil:
		return "", err
	case strings.Contains(string(text), "not in the whitelist"):
		return "", fmt.Errorf("%s is not in 4lw.commands.whitelist", command)
	}
	return string(text), nil
}

// zooKeeperBounds opens a session with the shortest timeout and one with the
// longest, and closes them.
func zooKeeperBounds(ctx context.Context, target *lockurl.Target, host string) (low, high time.Duration, err error) {
	if low, err = zooKeeperSession(ctx, target, host, 1); err != nil {
		return 0, 0, err
	}
	high, err = zooKeeperSession(ctx, target, host, math.MaxInt32)
	return low, high, err
}

// zooKeeperSession opens a session, closes it, and returns the timeout that it
// had: the client's library keeps that to itself. The records are those of
// ZooKeeper's zookeeper.jute: ConnectRequest, ConnectResponse, RequestHeader.
func zooKeeperSession(ctx context.Context, target *lockurl.Target, host string, milliseconds int32) (time.Duration, error) {
	conn, err := target.DialHost(ctx, host)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(connect.AnswerLimit)); err != nil {
		return 0, err
	}
	const passwordLen, closeSession = 16, -11
	connect := binary.BigEndian.AppendUint32(nil, 0)                       // protocolVersion
	connect = binary.BigEndian.AppendUint64(connect, 0)                    // lastZxidSeen
	connect = binary.BigEndian.AppendUint32(connect, uint32(milliseconds)) //nolint:gosec // above 0
	connect = binary.BigEndian.AppendUint64(connect, 0)                    // sessionId: a new one
	connect = binary.BigEndian.AppendUint32(connect, passwordLen)
	connect = append(connect, make([]byte, passwordLen)...)
	if err := writeFrame(conn, connect); err != nil {
		return 0, err
	}
	answer, err := readFrame(conn)
	if err != nil {
		return 0, err
	}
	if len(answer) < 8 {
		return 0, errors.New("it does not speak as ZooKeeper does")
	}
	got := time.Duration(binary.BigEndian.Uint32(answer[4:8])) * time.Millisecond // protocolVersion, then timeOut
	end := binary.BigEndian.AppendUint32(nil, 1)                                  // xid
	opCode := int32(closeSession)
	end = binary.BigEndian.AppendUint32(end, uint32(opCode)) //nolint:gosec // two's complement is meant
	if err := writeFrame(conn, end); err != nil {
		return 0, err
	}
	_, err = readFrame(conn) // by then it is closed
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return got, err
}

func writeFrame(w io.Writer, frame []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)) //nolint:gosec // tens of bytes
	return err
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 64<<10 {
		return nil, errors.New("it does not speak as ZooKeeper does")
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}
