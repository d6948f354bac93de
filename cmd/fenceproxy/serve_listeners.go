package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/internal/serveconfig"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy"
)

// listener is a place where clients connect, and the server for them.
type listener struct {
	name   string // as in listen
	ln     *handover
	server *pgproxy.Server
	config pgproxy.Config
	// retired: its server was shut down, perhaps before it began to serve.
	retired atomic.Bool
}

// change is what is to be done for a new configuration, opened and not begun.
type change struct {
	service *service
	config  *serveconfig.Config
	keep    map[string]pgproxy.Config // what listeners stay, and with what
	start   []*listener               // new ones
	admin   *adminListener            // a new one, or nil
}

// apply makes config what is served. What stays keeps its sessions; what goes
// is drained; with an error nothing has changed.
func (s *service) apply(config *serveconfig.Config) error {
	c := &change{service: s, config: config, keep: map[string]pgproxy.Config{}}
	if err := c.prepare(); err != nil {
		for _, l := range c.start {
			l.ln.Close()
		}
		return err
	}
	if err := c.commit(); err != nil {
		return err
	}
	s.ready.Reset()
	return nil
}

// prepare does all of a change that can fail.
func (c *change) prepare() error {
	configs := make([]pgproxy.Config, len(c.config.Postgres))
	var problems serveconfig.Problems
	for i := range c.config.Postgres {
		var err error
		if configs[i], err = c.service.postgres(c.config, i); err != nil {
			problems = append(problems, asProblems(c.config, i, err)...)
		}
	}
	if len(problems) > 0 {
		return problems
	}
	for i, p := range c.config.Postgres {
		if err := c.prepareListener(i, p, configs[i]); err != nil {
			return err
		}
	}
	var err error
	c.admin, err = c.service.prepareAdmin(c.config)
	return err
}

func (c *change) prepareListener(i int, p serveconfig.Postgres, config pgproxy.Config) error {
	l := &listener{name: p.Listen, config: config}
	old, stays := c.service.listeners[p.Listen]
	var ln net.Listener
	var err error
	switch {
	case stays && old.config.Upstream.Address == config.Upstream.Address:
		c.keep[p.Listen] = config
		return nil
	case stays:
		// Another server: clients that wait to be accepted are for it too.
		ln, err = old.ln.second()
	default:
		ln, err = pgproxy.Listen(context.Background(), p.Listen, fs.FileMode(p.SocketMode))
	}
	if err != nil {
		return serveconfig.Problems{c.config.Problem("postgres["+strconv.Itoa(i)+"].listen", "%w", listenError(p.Listen, err))}
	}
	l.ln = newHandover(ln)
	c.start = append(c.start, l)
	l.server, err = pgproxy.New(config)
	return err
}

// commit does what is left, which cannot fail.
func (c *change) commit() error {
	s := c.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config != nil {
		s.sayWhatStays(c.config)
	}
	limit := c.config.ShutdownTimeout
	started := map[string]*listener{}
	for _, l := range c.start {
		started[l.name] = l
	}
	for name, l := range s.listeners {
		config, stays := c.keep[name]
		if stays {
			if err := l.server.Reload(config); err != nil { // prepare has tried it
				return err
			}
			l.config = config
			continue
		}
		next := started[name]
		s.log.Info("no longer listening", "listen", name, "another_upstream", next != nil)
		delete(s.listeners, name)
		if next != nil {
			l.ln.leaveTo(next.ln)
		}
		s.retire(l, limit)
	}
	for _, l := range c.start {
		s.listeners[l.name] = l
		s.running.Go(func() { s.serve(l) })
		s.log.Info("listening", "listen", l.name, "address", l.ln.Addr().String(), "upstream", l.config.Upstream.Address, "untokened", l.config.Untokened.String())
	}
	s.applyAdmin(c.config, c.admin)
	s.level.Set(levelOf(c.config.Log))
	s.config = c.config
	return nil
}

// sayWhatStays names keys that a reload cannot change.
func (s *service) sayWhatStays(next *serveconfig.Config) {
	var keys []string
	if next.Log.Format != s.config.Log.Format {
		keys = append(keys, "log.format")
	}
	if next.Admin.PProf != s.config.Admin.PProf && next.Admin.Listen == s.config.Admin.Listen {
		keys = append(keys, "admin.pprof")
	}
	for i, p := range next.Postgres {
		for _, was := range s.config.Postgres {
			if was.Listen == p.Listen && was.SocketMode != p.SocketMode {
				keys = append(keys, "postgres["+strconv.Itoa(i)+"].socket_mode")
			}
		}
	}
	if len(keys) > 0 {
		s.log.Warn("this takes effect at the next start", "keys", keys)
	}
}

// retire drains a listener that is no longer in the configuration.
func (s *service) retire(l *listener, limit time.Duration) {
	l.retired.Store(true)
	s.running.Go(func() {
		ctx, cancel := context.WithTimeoutCause(s.hard, limit, errOverdue)
		defer cancel()
		_ = l.server.Shutdown(ctx) // it says in the log if sessions were cut
	})
}

// serve runs a listener until its server is shut down.
func (s *service) serve(l *listener) {
	if err := l.server.Serve(s.hard, l.ln); err != nil && s.hard.Err() == nil && !l.retired.Load() {
		select {
		case s.failed <- fmt.Errorf("listen on %s: %w", l.name, err):
		default: // one is enough to end all
		}
	}
}

// postgres is the configuration of listener i, with its files read.
func (s *service) postgres(config *serveconfig.Config, i int) (pgproxy.Config, error) {
	p := config.Postgres[i]
	clients, upstream, err := config.LoadTLS(i)
	if err != nil {
		return pgproxy.Config{}, err
	}
	c := pgproxy.Config{
		Upstream: pgproxy.Upstream{
			Address: p.Upstream.Address, TLS: upstream, DirectTLS: p.Upstream.TLS.Direct, ConnectTimeout: p.Upstream.ConnectTimeout,
		},
		ClaimWait: p.ClaimWait, Evict: p.Evict, MaxConnections: p.MaxConnections, IdleInTransaction: p.IdleInTransactionTimeout,
		AllowReplication: p.AllowReplication, HandshakeTimeout: p.HandshakeTimeout,
		KeepAlive: orNever(p.KeepAlive), UserTimeout: orNever(p.UserTimeout), MaxMessage: int(p.MaxMessage),
		Logger: s.log.With("listen", p.Listen),
	}
	if clients != nil {
		c.TLS = &pgproxy.TLS{Config: clients, Required: p.TLS.Required, VerifyUser: p.TLS.VerifyUser}
	}
	err = errors.Join(c.Untokened.UnmarshalText([]byte(p.Untokened)), c.Upstream.TLSMode.UnmarshalText([]byte(p.Upstream.TLS.Mode)))
	if err != nil {
		return pgproxy.Config{}, err
	}
	if c.Metrics, err = s.metricsOf(p.Listen); err != nil {
		return pgproxy.Config{}, err
	}
	_, err = pgproxy.New(c)
	return c, err
}

// metricsOf are the metrics of a listener, made when it is first there: what is
// counted goes on when it comes back.
func (s *service) metricsOf(listen string) (*pgproxy.Metrics, error) {
	if m, ok := s.metrics[listen]; ok {
		return m, nil
	}
	m, err := pgproxy.NewMetrics(prometheus.WrapRegistererWith(prometheus.Labels{"listen": listen}, s.registry))
	if err == nil {
		s.metrics[listen] = m
	}
	return m, err
}

// orNever is a duration of the configuration, where 0 is never, for pgproxy,
// where that is below 0.
func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// asProblems is err as mistakes of listener i.
func asProblems(config *serveconfig.Config, i int, err error) serveconfig.Problems {
	var problems serveconfig.Problems
	if errors.As(err, &problems) {
		return problems
	}
	return serveconfig.Problems{config.Problem("postgres["+strconv.Itoa(i)+"]", "%w", err)}
}

// listenError says why an address cannot be listened at, and what to do.
func listenError(address string, err error) error {
	reasons := []struct {
		err  error
		text string
	}{
		{syscall.EADDRINUSE, "another program listens there ('ss -ltnp' and 'ss -lxp' show which); end it, or choose another address"},
		{syscall.EADDRNOTAVAIL, "this machine has no such address"},
		{syscall.EACCES, "not allowed: a port below 1024 needs CAP_NET_BIND_SERVICE, a socket a folder that this user may write to"},
		{syscall.ENOENT, "its folder does not exist"},
	}
	if i := slices.IndexFunc(reasons, func(r struct {
		err  error
		text string
	},
	) bool {
		return errors.Is(err, r.err)
	}); i >= 0 {
		return fmt.Errorf("cannot listen on %s: %s (%w)", address, reasons[i].text, reasons[i].err)
	}
	return fmt.Errorf("cannot listen on %s: %w", address, err)
}

// cannotServe is the error of a start that failed, with its exit code.
func cannotServe(err error) error {
	code := exitFailure
	var problems serveconfig.Problems
	switch {
	case errors.Is(err, syscall.EACCES):
		code = exitDenied
	case errors.As(err, &problems):
		code = exitConfig
	}
	return fail(code, "%w", err)
}
