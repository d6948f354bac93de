package serve

import (
	"context"
	"io"
	"log/slog"
	"net"

	"github.com/fenceproxy/fenceproxy/internal/admin"
	"github.com/fenceproxy/fenceproxy/internal/serveconfig"
)

// adminListener is where /healthz, /readyz and /metrics are.
type adminListener struct {
	listen string // as in the configuration
	ln     net.Listener
	server *admin.Server
	stop   context.CancelFunc
	done   chan struct{}
}

// prepareAdmin opens the admin listener of a new configuration; nil if there is
// none, or it is there already.
func (s *service) prepareAdmin(config *serveconfig.Config) (*adminListener, error) {
	address := config.Admin.Listen
	if address == "" || s.admin != nil && s.admin.listen == address {
		return nil, nil
	}
	server, err := admin.New(admin.Config{Ready: s.ready, Gatherer: s.registry, PProf: config.Admin.PProf, Logger: s.log})
	if err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, serveconfig.Problems{config.Problem("admin.listen", "%w", listenError(address, err))}
	}
	return &adminListener{listen: address, ln: ln, server: server, done: make(chan struct{})}, nil
}

// applyAdmin ends the admin listener if it is not in config, and begins next.
func (s *service) applyAdmin(config *serveconfig.Config, next *adminListener) {
	if s.admin != nil && s.admin.listen != config.Admin.Listen {
		s.endAdmin()
	}
	if next == nil {
		return
	}
	s.log.Info("listening", "admin", next.ln.Addr().String())
	s.admin = next
	var ctx context.Context
	ctx, next.stop = context.WithCancel(context.Background())
	go func() {
		defer close(next.done)
		if err := next.server.Serve(ctx, next.ln); err != nil {
			s.log.Error("no longer listening", "admin", next.listen, "error", err)
		}
	}()
}

// endAdmin ends the admin listener, if there is one, and waits for its end.
func (s *service) endAdmin() {
	if s.admin == nil {
		return
	}
	s.admin.stop()
	<-s.admin.done
	s.admin = nil
}

// newLogger is the log, on one stream. Level can be changed later. Durations have
// their unit in both formats.
func newLogger(out io.Writer, config serveconfig.Log, level *slog.LevelVar) *slog.Logger {
	level.Set(levelOf(config))
	options := &slog.HandlerOptions{Level: level}
	if config.Format == "json" {
		options.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindDuration { // which would be a number of nanoseconds
				a.Value = slog.StringValue(a.Value.Duration().String())
			}
			return a
		}
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}

func levelOf(config serveconfig.Log) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(config.Level)); err != nil {
		panic(err) // serveconfig lets only levels through
	}
	return level
}
