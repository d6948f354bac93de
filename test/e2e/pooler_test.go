package e2e_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy"
)

// proxied starts a proxy in front of the database at a URL, and returns the
// database's URL through it.
func proxied(t *testing.T, databaseURL string, c pgproxy.Config) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	c.Upstream.Address = u.Host
	c.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	server, err := pgproxy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := pgproxy.Listen(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return testenv.URLVia(databaseURL, ln.Addr().String())
}

// PgBouncer in session mode may be in front of the proxy or behind it: the
// token is the session's, and the next client of its server connection has none.
func TestPgBouncerSessionMode(t *testing.T) {
	t.Parallel()
	for name, through := range map[string]func(t *testing.T, url string) string{
		"in front": func(t *testing.T, url string) string {
			return testenv.PgBouncer(t, proxied(t, url, pgproxy.Config{}), "session")
		},
		"behind": func(t *testing.T, url string) string {
			return proxied(t, testenv.PgBouncer(t, url, "session"), pgproxy.Config{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := ordersPool(t)
			url := through(t, pool.Config().ConnString())
			ship := func(token string) error {
				t.Helper()
				conn, err := pgx.Connect(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(context.Background())
				if token != "" {
					if _, err := conn.Exec(t.Context(), "SET fence.token = '"+token+"'"); err != nil {
						t.Fatal(err)
					}
				}
				tx, err := conn.Begin(t.Context())
				if err != nil {
					return err
				}
				_, err = tx.Exec(t.Context(), "UPDATE orders SET shipped = NOT shipped WHERE id = $1", 1)
				return errors.Join(err, tx.Commit(t.Context()))
			}
			for range 3 { // on server connections that others have had
				if err := ship("ft1:x:34:9f8c2ab1:k3v9:orders"); err != nil {
					t.Fatal(err)
				}
				wantState(t, ship(""), "25006")
				wantState(t, ship("ft1:x:33:5e0d77c9:k3v9:orders"), "TK001")
			}
			if !shipped(t, pool) {
				t.Error("the orders are not as the current token has left them")
			}
		})
	}
}

func wantState(t *testing.T, err error, state string) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != state {
		t.Errorf("got %v, want SQLSTATE %s", err, state)
	}
}
