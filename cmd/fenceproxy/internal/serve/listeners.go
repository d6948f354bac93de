package serve

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/internal/serveconfig"
)

// server is the proxy behind a listener: pgproxy's or s3proxy's.
type server interface {
	Serve(ctx context.Context, ln net.Listener) error
	Shutdown(ctx context.Context) error
	Ready(ctx context.Context) error
}

// plan is what a configuration wants at one place, with its files read.
type plan struct {
	protocol  string // of its clients
	path      string // in the configuration, as in postgres[0]
	name      string // as in listen
	upstream  string
	untokened string
	listen    func() (net.Listener, error)
	start     func() (server, error) // makes a server for it
	// reload gives it to the server that is there.
	reload func(running server, earlier *plan) error
	times  [2]time.Duration // of the server, that a reload cannot change
}

// follows reports whether the server of an earlier plan can go on with this one.
func (p *plan) follows(earlier *plan) bool {
	return p.protocol == earlier.protocol && p.upstream == earlier.upstream
}

// listener is a place where clients connect, and the server for them.
type listener struct {
	name   string // as in listen
	ln     *handover
	server server
	plan   *plan // of the last reload
	// retired: its server was shut down, perhaps before it began to serve.
	retired atomic.Bool
}

// change is what is to be done for a new configuration, opened and not begun.
type change struct {
	service *service
	config  *serveconfig.Config
	keep    map[string]*plan // what listeners stay, and with what
	begin   []*listener      // new ones
	admin   *adminListener   // a new one, or nil
}

// apply makes config what is served. What stays keeps its sessions; what goes
// is drained; with an error nothing has changed.
func (s *service) apply(config *serveconfig.Config) error {
	c := &change{service: s, config: config, keep: map[string]*plan{}}
	if err := c.prepare(); err != nil {
		for _, l := range c.begin {
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
	plans, err := c.service.plans(c.config)
	if err != nil {
		return err
	}
	for _, p := range plans {
		if err := c.prepareListener(p); err != nil {
			return err
		}
	}
	c.admin, err = c.service.prepareAdmin(c.config)
	return err
}

// plans are those of all listeners of a configuration; the error is all that is
// wrong with them.
func (s *service) plans(config *serveconfig.Config) ([]*plan, error) {
	var plans []*plan
	var problems serveconfig.Problems
	add := func(p *plan, err error) {
		plans = append(plans, p)
		if err != nil {
			problems = append(problems, asProblems(config, p.path, err)...)
		}
	}
	for i := range config.Postgres {
		add(s.planPostgres(config, i))
	}
	for i := range config.S3 {
		add(s.planS3(config, i))
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return plans, nil
}

func (c *change) prepareListener(p *plan) error {
	l := &listener{name: p.name, plan: p}
	old, stays := c.service.listeners[p.name]
	var ln net.Listener
	var err error
	switch {
	case stays && p.follows(old.plan):
		c.keep[p.name] = p
		return nil
	case stays:
		// Another server: clients that wait to be accepted are for it too.
		ln, err = old.ln.second()
	default:
		ln, err = p.listen()
	}
	if err != nil {
		return serveconfig.Problems{c.config.Problem(p.path+".listen", "%w", listenError(p.name, err))}
	}
	l.ln = newHandover(ln)
	c.begin = append(c.begin, l)
	l.server, err = p.start()
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
	begun := map[string]*listener{}
	for _, l := range c.begin {
		begun[l.name] = l
	}
	for name, l := range s.listeners {
		plan, stays := c.keep[name]
		if stays {
			if err := plan.reload(l.server, l.plan); err != nil { // prepare has tried it
				return err
			}
			l.plan = plan
			continue
		}
		next := begun[name]
		s.log.Info("no longer listening", "listen", name, "another_upstream", next != nil)
		delete(s.listeners, name)
		if next != nil {
			l.ln.leaveTo(next.ln)
		}
		s.retire(l, limit)
	}
	for _, l := range c.begin {
		s.listeners[l.name] = l
		s.running.Go(func() { s.serve(l) })
		s.log.Info("listening", "listen", l.name, "address", l.ln.Addr().String(), "protocol", l.plan.protocol,
			"upstream", l.plan.upstream, "untokened", l.plan.untokened)
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
	keys = slices.Concat(keys, socketsThatStay(s.config, next), timesThatStay(s.config, next))
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

// metricsOf are the metrics of a listener for a protocol, made when it is first
// there: what is counted goes on when it comes back.
func metricsOf[M any](s *service, protocol, listen string, register func(prometheus.Registerer) (M, error)) (M, error) {
	key := [...]string{protocol, listen}
	if m, ok := s.metrics[key]; ok {
		return m.(M), nil
	}
	m, err := register(prometheus.WrapRegistererWith(prometheus.Labels{"listen": listen}, s.registry))
	if err == nil {
		s.metrics[key] = m
	}
	return m, err
}
