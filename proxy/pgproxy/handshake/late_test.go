package handshake

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A client that is in the middle of a message when the server lets it in has no
// place in a session, in which the next byte is the first of a message.
func TestAnswerThatComesTooLate(t *testing.T) {
	t.Parallel()
	client, proxyClient := net.Pipe()
	server, proxyServer := net.Pipe()
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() {
		readStartup(server)
		_, _ = server.Write(auth(8, "x"))
		_, _ = readN(client, nil, len(auth(8, "x")))
		_, _ = client.Write([]byte("p\x00")) // returns when it has been read
		_, _ = server.Write(auth(authOk))
		_, _ = io.Copy(io.Discard, client)
	})
	h := &Handshake{client: proxyClient, upstream: proxyServer}
	_, err := h.authenticate(t.Context(), &startup{packet: startupPacket(protocol30), version: protocol30})
	if err == nil {
		t.Error("the client is let in")
	}
	for _, conn := range []net.Conn{client, server, proxyClient, proxyServer} {
		conn.Close()
	}
}
