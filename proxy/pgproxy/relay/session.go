package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/internal/pgwire"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/gate"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/socket"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/own"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/relay/stream"
)

// session is one client and its server connection, from the end of the
// authentication on. Two goroutines relay: up owns what the client sends, down
// what the server sends. What the fence says of a message is asked of machine.
type session struct {
	*Link

	// secret is the body of BackendKeyData, process id and key, nil if the server
	// sent none: for a cancel when the client is gone.
	secret []byte

	memory                 *memory // of the server
	fromClient, fromServer *stream.Source
	toClient, toServer     *stream.Sink

	own     *own.Statements
	affixes *own.Affixes // up's
	span    span         // up's: what the loop has begun to relay, if it has
	replies replies      // down's, likewise
	kept    []byte       // down's: a reply that waits for the COMMIT behind it
	client  presence     // up's, while it waits for the server

	mu       sync.Mutex
	machine  *gate.Machine
	waiting  bool      // up waits for wake
	exchange *exchange // of the proxy's own that is under way
	idleFrom time.Time // since when nothing has been under way in its block
	opened   bool      // the client has been told that it may begin
	telling  bool      // down has looked at what it has not written yet: perhaps the reply to a COMMIT
	draining bool
	ended    bool   // down has ended
	over     bool   // nothing more may be sent to the server
	torn     bool   // whoever had mu is at work, or has panicked in the middle of it
	closing  bool   // up has ended: the client is given time to read what it was sent
	token    string // as it was last resolved
	asked    string // as it was last looked up, though it may have been refused
	texts    *texts // nil if none is to be logged

	wake chan struct{} // has an element when what up waits for may have come
}

// errOver is the end of a session that both sides know of.
var errOver = errors.New("session is over")

// Serve relays between a client and its server until one of them is done, or ctx
// ends; from drain's end on, until the client idles outside of a transaction. It
// owns both connections and has closed them when it returns.
func (r *Relay) Serve(ctx context.Context, l *Link, drain <-chan struct{}) error {
	l.adopt(r.loop())
	sn := &session{
		Link: l, memory: &r.memory,
		fromClient: stream.NewSource(l.Client), fromServer: stream.NewSource(l.Server),
		toClient: stream.NewLossySink(l.Client), toServer: stream.NewSink(l.Server),
		own:     own.New(randomSuffix()),
		machine: gate.New(l.Config.Untokened),
		texts:   newTexts(l.Config.LogStatements),
		wake:    make(chan struct{}, 1),
	}
	sn.machine.Reserve(sn.own.Prefix())
	sn.watchClient()
	group, ctx := errgroup.WithContext(ctx)
	done := make(chan struct{})
	group.Go(func() error { return sn.relayUp(ctx, done) })
	group.Go(func() error { return sn.watch(ctx, drain, done) })
	err := group.Wait()
	if errors.Is(err, errOver) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func randomSuffix() string {
	return fmt.Sprintf("%08x", rand.Uint32()) //nolint:gosec // it tells sessions apart
}

// relayUp is the session: it opens it, starts down beside itself, and relays
// what the client sends.
func (s *session) relayUp(ctx context.Context, done chan<- struct{}) (err error) {
	var down errgroup.Group
	defer func() {
		close(done)
		s.mu.Lock()
		s.closing = true
		s.mu.Unlock()
		_ = s.Server.Close()
		_ = socket.LingerClose(s.Client) // what the client has not read yet is not to be lost
		_ = s.Client.Close()
		if downErr := down.Wait(); err == nil || errors.Is(err, net.ErrClosed) {
			err = downErr
		}
		s.fromClient.Release()
		s.fromServer.Release()
	}()
	defer s.recovered(&err)
	if err := s.greet(); err != nil {
		return err
	}
	if s.Replication {
		s.resolved(gate.Pass, own.NewAffixes(s.own, gate.Allow, "", nil), "")
	}
	down.Go(func() error {
		err := s.down()
		s.interrupt() // up may wait for the server, or for the client
		return err
	})
	if !s.Replication {
		if err := s.open(ctx); err != nil {
			return s.fail(ctx, err)
		}
	}
	if err := s.toClient.Insert(readyIdle); err != nil {
		return err
	}
	s.mu.Lock()
	s.opened = true
	s.mu.Unlock()
	s.endIfIdle() // a drain may have come meanwhile
	return s.fail(ctx, s.up(ctx))
}

var readyIdle = []byte{'Z', 0, 0, 0, 5, 'I'} //nolint:gochecknoglobals // never written to

// greet relays what the server says before it is ready for the first time.
func (s *session) greet() error {
	for {
		kind, body, err := s.next()
		if err != nil {
			return fmt.Errorf("read server: %w", err)
		}
		if kind == 'Z' {
			s.fromServer.Take(pgwire.HeaderSize + len(body))
			return nil
		}
		if kind == 'K' {
			s.secret = append([]byte(nil), body...)
		}
		s.machine.Server(kind, body)
		frame := s.fromServer.Rest()[:pgwire.HeaderSize+len(body)]
		if err := s.toClient.Write(frame, false); err != nil {
			return err
		}
		s.fromServer.Take(len(frame))
		if kind == 'E' {
			return errOver
		}
	}
}

// next reads the next message of the server's as a whole.
func (s *session) next() (kind byte, body []byte, err error) {
	src := s.fromServer
	if err := src.Header(); err != nil {
		return 0, nil, err
	}
	n, ok := pgwire.Length(src.Rest())
	if !ok || n > maxReply {
		return 0, nil, errBadLength
	}
	for len(src.Rest()) < pgwire.HeaderSize+n {
		if err := src.More(pgwire.HeaderSize + n); err != nil {
			return 0, nil, err
		}
	}
	rest := src.Rest()
	return rest[0], rest[pgwire.HeaderSize : pgwire.HeaderSize+n], nil
}

// maxReply is how much of a reply of the server's is looked at: those that are
// looked at are short.
const maxReply = 1 << 20

var errBadLength = errors.New("message has an impossible length")

// fail tells the client why the session ends, if it does not know.
func (s *session) fail(ctx context.Context, err error) error {
	var (
		r      *refusal.Error
		server *serverError
	)
	switch {
	case errors.Is(err, errGone), errors.Is(err, errPanicked):
		return s.clientGone(ctx, io.EOF)
	case errors.As(err, &r):
	case errors.As(err, &server):
		r = refusal.Prepare(server.code, server.message, server.hint)
	case errors.Is(err, errStatementTooLong):
		r = refusal.TooLong(s.Config.MaxMessage)
	case errors.Is(err, errBadLength), errors.Is(err, stream.ErrTooLong):
		r = refusal.Packet("invalid message length")
	default:
		return err
	}
	s.end(r)
	return err
}

// end says to the client why its session ends, and ends it. A client that reads
// nothing cannot hold that up.
func (s *session) end(r *refusal.Error) {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	_ = socket.Below(s.Client).SetWriteDeadline(time.Now().Add(refusal.TimeLimit))
	s.toClient.Last(r.Wire())
	_ = s.Server.Close()
	s.interrupt()
}

// interrupt ends what up waits for.
func (s *session) interrupt() {
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	if closing {
		return // it would end the wait for the client, too
	}
	_ = socket.Below(s.Client).SetReadDeadline(time.Unix(1, 0))
	s.nudge()
}
