package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	socketPrefix = ".s.PGSQL." // then the port: the name of a socket by which libpq finds it
	defaultPort  = "5432"
)

// Address is where a server listens: what package net calls network and
// address, and the host whose name a certificate must have.
type Address struct {
	Network, Where string
	Host           string // "" for a unix socket
}

// Unix reports whether it is a unix socket.
func (a Address) Unix() bool { return a.Network == "unix" }

// ParseAddress takes a host:port, the path of a unix socket, or its folder,
// perhaps with a port. What is a path is told by its first byte, as libpq does,
// and what is a folder by the name: a folder may be made later.
func ParseAddress(text string) (Address, error) {
	if strings.HasPrefix(text, "/") || strings.HasPrefix(text, "@") {
		return parseSocket(text)
	}
	host, port, err := net.SplitHostPort(text)
	switch {
	case text == "":
		return Address{}, errors.New("no address")
	case err != nil:
		return Address{}, fmt.Errorf("address %q is neither host:port nor a path that begins with /: %w", text, err)
	case !isPort(port):
		return Address{}, fmt.Errorf("address %q has no port between 0 and 65535", text)
	}
	return Address{Network: "tcp", Where: text, Host: host}, nil
}

func parseSocket(text string) (Address, error) {
	path := socketPath(text)
	if len(path) >= len(syscall.RawSockaddrUnix{}.Path) {
		return Address{}, fmt.Errorf("path of unix socket %q is too long", path)
	}
	return Address{Network: "unix", Where: path}, nil
}

func socketPath(text string) string {
	if name := filepath.Base(text); strings.HasPrefix(name, socketPrefix) || strings.HasSuffix(name, ".sock") {
		return text
	}
	folder, port := text, defaultPort
	if i := strings.LastIndexByte(text, ':'); i > strings.LastIndexByte(text, '/') && isPort(text[i+1:]) {
		folder, port = text[:i], text[i+1:]
	}
	return strings.TrimSuffix(folder, "/") + "/" + socketPrefix + port
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// Listen listens where address says: at a host:port, or at a unix socket, named
// as ParseAddress takes it. The socket gets the permissions mode, and one that a
// proxy left behind when it was killed is replaced; one at which somebody still
// listens is an error. The socket is removed when the listener is closed.
func Listen(ctx context.Context, address string, mode fs.FileMode) (net.Listener, error) {
	at, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: restrict(mode)}
	if !at.Unix() || strings.HasPrefix(at.Where, "@") {
		return lc.Listen(ctx, at.Network, at.Where)
	}
	if err := removeStale(ctx, at.Where); err != nil {
		return nil, err
	}
	ln, err := lc.Listen(ctx, at.Network, at.Where)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(at.Where, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("set the permissions of %s: %w", at.Where, err), ln.Close())
	}
	return ln, nil
}

// restrict takes from a socket, before it has a name, the permissions that mode
// does not have, so that there is no moment in which others can connect. Not
// every system heeds that.
func restrict(mode fs.FileMode) func(network, address string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		if network != "unix" {
			return nil
		}
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode.Perm())) })
	}
}

// removeStale removes a socket at which nobody listens. What is no socket stays.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return nil //nolint:nilerr // to listen fails, with a better error
	}
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("listen at %s: %w", path, syscall.EADDRINUSE)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return nil // not known to be stale
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket of a proxy that is gone: %w", err)
	}
	return nil
}
