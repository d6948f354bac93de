package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// Nobody needs longer to ask; whoever is slower is not to hold a connection.
	readTimeout = 10 * time.Second
	idleTimeout = 2 * time.Minute
	// writeTimeout is above the time that a profile or a trace takes by default.
	writeTimeout = 2 * time.Minute
	maxHeader    = 16 << 10
)

// Config says what a Server shows.
type Config struct {
	// Ready is asked whether clients can be served. Required.
	Ready *Readiness
	// Gatherer has what /metrics shows. Required.
	Gatherer prometheus.Gatherer
	// PProf adds /debug/pprof/, which shows the memory of the program to whoever
	// can connect. Defaults to false.
	PProf bool
	// Logger is told what goes wrong. Required.
	Logger *slog.Logger
}

// Server answers HTTP requests of operators.
type Server struct{ http *http.Server }

// New returns a server that is yet to Serve.
func New(c Config) (*Server, error) {
	if c.Ready == nil || c.Gatherer == nil || c.Logger == nil {
		return nil, errors.New("admin: Ready, Gatherer and Logger are required")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", c.Ready.serveHTTP)
	errorLog := slog.NewLogLogger(c.Logger.Handler(), slog.LevelWarn)
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.Gatherer, promhttp.HandlerOpts{
		ErrorLog: errorLog, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, EnableOpenMetrics: true,
	}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "/healthz /readyz /metrics\n") })
	if c.PProf {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return &Server{http: &http.Server{
		Handler: mux, ErrorLog: errorLog, MaxHeaderBytes: maxHeader,
		ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
	}}, nil
}

// Serve answers on ln until ctx ends, which also ends requests under way. It
// closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	closed := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() { s.http.Close(); close(closed) })
	err := s.http.Serve(ln)
	if unhook() {
		close(closed)
	}
	<-closed
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve admin requests: %w", err)
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // who asked has gone, if it fails
}
