package scene

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/internal/testenv/folder"
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
)

// TwoListeners is one fenceproxy in front of the database and in front of a server
// that has room for any number of idle sessions: as many backends of a real one
// would take more memory than many machines have.
func (d *Database) TwoListeners(b *bed.Bed, idle string) Proxy {
	return Serve(b, d.listener("read-only")+fmt.Sprintf("  - listen: 127.0.0.2:0\n    untokened: allow\n    upstream: {address: %q}\n", idle), 2)
}

// BouncerOf starts a PgBouncer in session mode in front of such a server.
func BouncerOf(b *bed.Bed, server string, sessions int) (addr string, pid int) {
	who, err := localserver.ServerAccount()
	b.Must(err)
	dir, remove, err := folder.New(who)
	b.Must(err)
	b.Cleanup(remove)
	host, port, err := net.SplitHostPort(server)
	b.Must(err)
	b.Must(localserver.OnFreePorts(1, func(ports []int) error {
		config := filepath.Join(dir, "pgbouncer.ini")
		err := os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=%s port=%s user=u
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = session
max_client_conn = %[4]d
default_pool_size = %[4]d
`, host, port, ports[0], sessions+100), 0o644)
		if err != nil {
			return err
		}
		program := testenv.Program(b, "pgbouncer", "/usr/sbin/pgbouncer")
		process, err := localserver.StartLogged(who.Run(exec.Command(program, config), dir), filepath.Join(dir, "log"), syscall.SIGKILL)
		if err != nil {
			return err
		}
		b.Cleanup(func() { process.End(patience, syscall.SIGKILL) })
		addr = localserver.Loopback(ports[0])
		return process.AwaitReady(b.Context(), patience, func(context.Context) error {
			conn, err := Login(addr)
			if err != nil {
				return err
			}
			return conn.Close()
		})
	}))
	return addr, pidAt(b, addr)
}

// IdleServer serves as a database without the fence, which answers what a proxy
// asks at the start of a session, and nothing else. It returns its address.
func IdleServer(b *bed.Bed) string {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	b.Must(err)
	b.Cleanup(func() { server.Close() })
	go func() {
		var sessions errgroup.Group
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			sessions.Go(func() error {
				defer conn.Close()
				return pretend(conn)
			})
		}
	}()
	return server.Addr().String()
}

func pretend(conn net.Conn) error {
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return err
	}
	b.Send(&pgproto3.AuthenticationOk{})
	for name, value := range map[string]string{
		"server_version": "15.0", "client_encoding": "UTF8", "server_encoding": "UTF8", "DateStyle": "ISO, MDY",
		"standard_conforming_strings": "on", "TimeZone": "UTC", "integer_datetimes": "on", "application_name": "",
	} {
		b.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	columns := 0
	for {
		if err := b.Flush(); err != nil {
			return err
		}
		m, err := b.Receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.Parse:
			columns = 2 + strings.Count(m.Query, "to_regtype(")
		case *pgproto3.Execute:
			row := make([][]byte, columns) // no such types
			row[0] = []byte{}              // no token
			row[1] = []byte("read committed")
			b.Send(&pgproto3.DataRow{Values: row})
		case *pgproto3.Query:
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SET")})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Sync:
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		}
	}
}

// Login opens a session and leaves it idle.
func Login(addr string) (net.Conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	f := pgproto3.NewFrontend(conn, conn)
	f.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "u", "database": "u"}})
	if err := f.Flush(); err != nil {
		conn.Close()
		return nil, err
	}
	for {
		switch m, err := f.Receive(); m := m.(type) {
		case nil:
			conn.Close()
			return nil, err
		case *pgproto3.ErrorResponse:
			conn.Close()
			return nil, fmt.Errorf("log in: %s %s", m.Code, m.Message)
		case *pgproto3.ReadyForQuery:
			return conn, nil
		}
	}
}
