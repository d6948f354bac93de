package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Database makes an empty database for this test and returns its URL as a
// superuser. It is dropped when the test ends, whoever is still connected or
// has a transaction prepared there.
func (s *PostgresServer) Database(tb testing.TB) string {
	tb.Helper()
	name := freshName("t")
	err := withConn(s.admin, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "create database "+name)
		return err
	})
	if err != nil {
		tb.Fatalf("testenv: create database: %v", err)
	}
	u := parseURL(s.admin)
	u.Path = "/" + name
	tb.Cleanup(func() {
		if s.private {
			return // goes with its server, which may be dead by now
		}
		if err := s.drop(name, u.String()); err != nil {
			tb.Errorf("testenv: drop database: %v", err)
		}
		s.dropRoles()
	})
	return u.String()
}

// drop drops a database, and first what DROP DATABASE … FORCE stops at.
func (s *PostgresServer) drop(name, databaseURL string) error {
	err := withConn(databaseURL, func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, `select format('rollback prepared %L', gid) from pg_prepared_xacts where database = current_database()
			union all select format('select pg_terminate_backend(%s)', active_pid) from pg_replication_slots where database = current_database() and active
			union all select format('select pg_drop_replication_slot(%L)', slot_name) from pg_replication_slots where database = current_database()`)
		if err != nil {
			return err
		}
		statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, statement := range statements {
			if _, err := c.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return withConn(s.admin, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "drop database if exists "+name+" with (force)")
		return err
	})
}

// Role makes a role with the attributes, like "LOGIN CREATEROLE", for this
// test. It is dropped when the test ends, or after the last database in which
// something depends on it.
func (s *PostgresServer) Role(tb testing.TB, attrs string) (name, password string) {
	tb.Helper()
	name, password = freshName("r"), rand.Text()
	err := withConn(s.admin, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, fmt.Sprintf("create role %s %s password '%s'", name, attrs, password))
		return err
	})
	if err != nil {
		tb.Fatalf("testenv: create role: %v", err)
	}
	tb.Cleanup(func() {
		s.mu.Lock()
		s.roles = append(s.roles, name)
		s.mu.Unlock()
		s.dropRoles()
	})
	return name, password
}

// dropRoles drops the roles of tests that have ended. What still depends on
// one is in a database whose test has not ended; the role goes with it.
func (s *PostgresServer) dropRoles() {
	if s.private {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.roles) == 0 {
		return
	}
	var left []string
	_ = withConn(s.admin, func(ctx context.Context, c *pgx.Conn) error {
		for _, role := range s.roles {
			if _, err := c.Exec(ctx, "drop role if exists "+role); err != nil {
				left = append(left, role)
			}
		}
		return nil
	})
	s.roles = left
}

// freshName is a name that needs no quoting, different for every call.
func freshName(prefix string) string {
	return "fence_" + prefix + "_" + strings.ToLower(rand.Text()[:12])
}

func parseURL(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(fmt.Sprintf("testenv: database URL: %v", err))
	}
	return u
}

// URLAs is databaseURL as another user.
func URLAs(databaseURL, user, password string) string {
	u := parseURL(databaseURL)
	u.User = url.UserPassword(user, password)
	return u.String()
}

// URLVia is databaseURL through another host:port, a Link or a pooler.
func URLVia(databaseURL, addr string) string {
	u := parseURL(databaseURL)
	u.Host = addr
	return u.String()
}
