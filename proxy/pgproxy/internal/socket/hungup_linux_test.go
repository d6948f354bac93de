package socket

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
)

func TestHungUp(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for name, hangUp := range map[string]func(c *net.TCPConn){
		"closed":      func(c *net.TCPConn) { c.Close() },
		"half closed": func(c *net.TCPConn) { _ = c.CloseWrite() },
		"reset":       func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
	} {
		client, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(client, "unread"); err != nil {
			t.Fatal(err)
		}
		if HungUp(conn) || HungUp(Below(tls.Server(conn, nil))) {
			t.Errorf("%s: it has not hung up", name)
		}
		hangUp(client.(*net.TCPConn))
		for !HungUp(conn) { // over loopback, at once
			if _, err := conn.Write(nil); err != nil {
				t.Fatal(err)
			}
		}
		client.Close()
		conn.Close()
	}
	if a, _ := net.Pipe(); HungUp(a) {
		t.Error("a pipe cannot tell")
	}
}
