package s3proxy

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/http1"
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
	return conn, nil
}

// connections are those of clients, and those of them that are beyond
// MaxConnections.
type connections struct {
	mu           sync.Mutex
	count, extra int
}

// maxExtra bounds the connections that are only told that there are too many.
const maxExtra = 64

// connected counts a connection. One that is too many is told so when it has sent
// a request, as far as there is room for that too.
func (s *Server) connected(conn net.Conn) http1.Client {
	config := s.config.Load()
	c := http1.Client{Handler: s.handle, SendTimeout: config.MaxBodyTime}
	s.metrics.connections.Inc()
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	if config.MaxConnections == 0 || s.conns.count < config.MaxConnections {
		s.conns.count++
		c.Closed = func() { s.disconnected(&s.conns.count) }
		return c
	}
	s.metrics.refusedConnections.Inc()
	if s.conns.extra >= maxExtra {
		conn.Close()
	}
	s.conns.extra++
	c.Handler = gateway.Busy
	c.Closed = func() { s.disconnected(&s.conns.extra) }
	return c
}

// disconnected counts down what connected has counted.
func (s *Server) disconnected(count *int) {
	s.metrics.connections.Dec()
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	*count--
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
