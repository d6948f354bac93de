package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sys/unix"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/internal/admin"
	"github.com/fenceproxy/fenceproxy/internal/serveconfig"
)

// errShuttingDown is why clients should go elsewhere from the first signal on.
var errShuttingDown = errors.New("shutting down")

// errOverdue is why sessions and requests are cut when shutdown_timeout has passed.
var errOverdue = errors.New("sessions or requests did not end in time")

// service is a run of serve. All that it starts counts in running, but for the
// admin listener, which is to be there until the end.
type service struct {
	load     func() (*serveconfig.Config, error)
	log      *slog.Logger
	level    *slog.LevelVar
	registry *prometheus.Registry
	reloaded prometheus.Gauge
	ready    *admin.Readiness

	hard    context.Context // ends when what is left is to be cut; the cause says why
	cut     context.CancelCauseFunc
	running sync.WaitGroup
	failed  chan error // what ended by itself

	mu        sync.Mutex // for readiness, which is asked at any time
	config    *serveconfig.Config
	listeners map[string]*listener // by the text of listen
	admin     *adminListener
	metrics   map[[2]string]any // by protocol and the same; they outlive their listener
}

// runService serves until a signal ends it. Ctx is that of a command, which ends
// with the first signal; here there is more to a signal than that.
func (p *program) runService(ctx context.Context, config *serveconfig.Config, load func() (*serveconfig.Config, error)) error {
	signals := p.Signals.Take()
	defer p.Signals.GiveBack()
	signal.Notify(signals, syscall.SIGHUP) // under nohup too: it only reads the file again
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := newService(p, config, load)
	defer s.cut(nil)
	if err := s.apply(config); err != nil {
		s.end()
		return cannotServe(err)
	}
	s.warn(config)
	s.notify(daemon.SdNotifyReady)
	for {
		select {
		case err := <-s.failed:
			s.end()
			return cli.Fail(cli.ExitFailure, "%w", err)
		case got := <-signals:
			if got == syscall.SIGHUP {
				s.reload()
				continue
			}
			s.notify(daemon.SdNotifyStopping)
			return s.drain(signals, got.(syscall.Signal))
		}
	}
}

func newService(p *program, config *serveconfig.Config, load func() (*serveconfig.Config, error)) *service {
	s := &service{
		load: load, level: new(slog.LevelVar), registry: prometheus.NewRegistry(), failed: make(chan error, 1),
		reloaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fenceproxy_config_reload_successful", Help: "Whether the last reload of the configuration took effect (1) or had a mistake (0).",
		}),
		listeners: map[string]*listener{}, metrics: map[[2]string]any{},
	}
	s.log = newLogger(p.Err, config.Log, s.level)
	s.reloaded.Set(1)
	s.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), s.reloaded,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fenceproxy_build_info", Help: "1, with the version of the program.", ConstLabels: prometheus.Labels{"version": cli.ProgramVersion()},
		}, func() float64 { return 1 }),
	)
	s.ready = admin.NewReadiness(s.checkReady)
	s.hard, s.cut = context.WithCancelCause(context.Background())
	return s
}

// warn logs what may not be meant.
func (s *service) warn(config *serveconfig.Config) {
	for _, warning := range config.Warnings(time.Now()) {
		s.log.Warn("config", "warning", warning.Error())
	}
}

// notify tells systemd, if that is what started us.
func (s *service) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("cannot tell systemd", "error", err)
	}
}

// reload reads the configuration again. A mistake changes nothing.
func (s *service) reload() {
	config, err := s.load()
	if err == nil {
		err = s.apply(config)
	}
	if err == nil {
		s.reloaded.Set(1)
		s.warn(config)
		s.log.Info("reloaded")
		return
	}
	s.reloaded.Set(0)
	var problems serveconfig.Problems
	if !errors.As(err, &problems) {
		s.log.Error("not reloaded, nothing was changed", "error", err)
	}
	for _, problem := range problems {
		s.log.Error("not reloaded, nothing was changed", "error", problem)
	}
}

// checkReady says whether clients of every listener can be served.
func (s *service) checkReady(ctx context.Context) error {
	s.mu.Lock()
	var all []*listener
	for _, l := range s.listeners {
		all = append(all, l)
	}
	s.mu.Unlock()
	results := make([]error, len(all))
	var asked sync.WaitGroup
	for i, l := range all {
		asked.Go(func() {
			if err := l.server.Ready(ctx); err != nil {
				results[i] = fmt.Errorf("%s: %w", l.name, err)
			}
		})
	}
	asked.Wait()
	return errors.Join(results...)
}

// drain lets sessions and requests end, and cuts those that take longer than
// shutdown_timeout, or when a second signal says so. /readyz and /metrics are
// there until the end.
func (s *service) drain(signals <-chan os.Signal, first syscall.Signal) error {
	s.ready.End(errShuttingDown)
	limit := s.config.ShutdownTimeout
	s.log.Info("shutting down", "signal", unix.SignalName(first), "shutdown_timeout", limit)
	overdue := time.AfterFunc(limit, func() { s.cut(errOverdue) })
	defer overdue.Stop()
	for _, l := range s.listeners {
		s.running.Go(func() { _ = l.server.Shutdown(s.hard) }) // why it is cut is known here
	}
	done := make(chan struct{})
	go func() { defer close(done); s.running.Wait() }()
	for {
		select {
		case <-done:
			s.endAdmin()
			return s.drained(first)
		case got := <-signals:
			if got != syscall.SIGHUP {
				s.cut(cli.SignalError{Signal: got.(syscall.Signal)})
			}
		}
	}
}

// drained is how a drain ended.
func (s *service) drained(first syscall.Signal) error {
	var again cli.SignalError
	switch cause := context.Cause(s.hard); {
	case errors.As(cause, &again):
		return &cli.FinalError{Code: cli.ExitSignal + int(again.Signal), Err: fmt.Errorf("stopped by %s after %s: what was left was cut", unix.SignalName(again.Signal), unix.SignalName(first))}
	case errors.Is(cause, errOverdue):
		return &cli.FinalError{Code: cli.ExitFailure, Err: fmt.Errorf("%w (shutdown_timeout %v): what was left was cut", errOverdue, s.config.ShutdownTimeout)}
	}
	s.log.Info("stopped")
	return nil
}

// end ends everything at once.
func (s *service) end() {
	s.cut(nil)
	s.running.Wait()
	s.endAdmin()
}
