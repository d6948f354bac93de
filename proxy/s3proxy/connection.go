package s3proxy

import (
	"context"
	"crypto/tls"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/wire"
)

const (
	dialTimeout = 10 * time.Second
	// Connections to the store that are kept while nobody needs them.
	maxIdle     = 1024
	idleTimeout = 90 * time.Second
	// Buffers of a connection to the store, each way. Bodies are read and written
	// in pieces of that size.
	bufferSize = 32 << 10
)

// listener takes connections, with the TLS of the configuration that is in force.
type listener struct {
	net.Listener

	server *Server
}

// Accept takes the next connection. Its TLS begins when it is read.
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if config := l.server.config.Load().tls; config != nil {
		return tls.Server(conn, config), nil
	}
	if socket, ok := conn.(*net.TCPConn); ok {
		return wire.NewConn(socket, l.server.config.Load().MaxBodyTime), nil
	}
	return conn, nil
}

// connections are those of clients, and those of them that are beyond
// MaxConnections.
type connections struct {
	mu    sync.Mutex
	count int
	extra map[net.Conn]struct{}
}

// maxExtra bounds the connections that are only told that there are too many.
const maxExtra = 64

type extraKey struct{}

func tooMany(ctx context.Context) bool { return ctx.Value(extraKey{}) != nil }

// connected counts a connection. One that is too many is told so when it has sent
// a request, as far as there is room for that too.
func (s *Server) connected(ctx context.Context, conn net.Conn) context.Context {
	most := s.config.Load().MaxConnections
	s.metrics.connections.Inc()
	ctx = context.WithValue(ctx, gateway.ConnKey{}, conn) //nolint:forbidigo // as below
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	if most == 0 || s.conns.count < most {
		s.conns.count++
		return ctx
	}
	s.metrics.refusedConnections.Inc()
	if len(s.conns.extra) >= maxExtra {
		conn.Close()
	}
	if s.conns.extra == nil {
		s.conns.extra = make(map[net.Conn]struct{})
	}
	s.conns.extra[conn] = struct{}{}
	return context.WithValue(ctx, extraKey{}, true) //nolint:forbidigo // no token: net/http has no other way from a connection to its requests
}

func (s *Server) disconnected(conn net.Conn) {
	s.metrics.connections.Dec()
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	if _, extra := s.conns.extra[conn]; extra {
		delete(s.conns.extra, conn)
		return
	}
	s.conns.count--
}

// newTransport is the way to the store. It says nothing that was not asked for:
// no compression, which would change lengths and ETags, no HTTP/2, no proxy of
// the environment's.
//
// It waits so long for the store to begin its answer when it has the whole request.
func newTransport(config *tls.Config, wait time.Duration) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:     config.Clone(),
		TLSHandshakeTimeout: dialTimeout,

		ResponseHeaderTimeout: wait,

		Protocols:           protocols,
		DisableCompression:  true,
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     idleTimeout,
		ReadBufferSize:      bufferSize,
		WriteBufferSize:     bufferSize,
	}
}

// errorLog is where net/http tells of what no request is to be answered for.
func errorLog(l *slog.Logger) *log.Logger { return log.New(&httpLog{l}, "", 0) }

type httpLog struct{ log *slog.Logger }

func (h *httpLog) Write(p []byte) (int, error) {
	level := slog.LevelError
	text := strings.TrimSpace(string(p))
	if strings.Contains(text, "TLS handshake error") { // anybody can do that
		level = slog.LevelDebug
	}
	h.log.Log(context.Background(), level, text)
	return len(p), nil
}
