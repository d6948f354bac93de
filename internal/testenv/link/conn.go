package link

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// codec cuts one connection's bytes into whole messages and knows which reply
// belongs to which request. fromClient and fromServer are called by one
// goroutine each.
type codec interface {
	// fromClient reads the client's next message. It calls request before it
	// returns a message that is one, and keeps in mind if that says to lose
	// the reply.
	fromClient(r *bufio.Reader, request func(path string) bool) ([]byte, error)
	// fromServer reads the server's next message and says what to do with it.
	fromServer(r *bufio.Reader) ([]byte, fate, error)
}

type fate int

const (
	forward fate = iota
	swallow      // part of a reply that gets lost
	cut          // swallow, and the server has answered: cut the connection
)

// errUnreadable is a codec's error for bytes that it cannot understand.
var errUnreadable = errors.New("link cannot read this connection (TLS?)")

func newCodec(p Protocol) codec {
	switch p {
	case HTTP2:
		return &http2Codec{}
	case PostgresWire:
		return &postgresCodec{}
	case RESP:
		return &respCodec{}
	case ZooKeeperWire:
		return &zooKeeperCodec{}
	default:
		return &bytesCodec{}
	}
}

// conn is one connection through a link. Each direction has a goroutine
// that reads messages and one that writes them when they are due, so that a
// delay adds up for nobody.
type conn struct {
	link           *Link
	client, server net.Conn
	codec          codec
	closed         chan struct{}
	once           sync.Once
}

// parcel is a message on its way. The last one has no bytes.
type parcel struct {
	bytes []byte
	read  time.Time
}

// queued is how many messages may be on their way in one direction.
const queued = 1 << 10

func newConn(l *Link, client, server net.Conn) *conn {
	return &conn{link: l, client: client, server: server, codec: newCodec(l.protocol), closed: make(chan struct{})}
}

// run moves messages until both directions have ended.
func (c *conn) run() {
	var wg sync.WaitGroup
	up, down := make(chan parcel, queued), make(chan parcel, queued)
	wg.Go(func() { c.write(c.server, up) })
	wg.Go(func() { c.write(c.client, down) })
	wg.Go(func() { c.readClient(up) })
	wg.Go(func() { c.readServer(down) })
	wg.Wait()
}

func (c *conn) readClient(to chan<- parcel) {
	defer c.send(to, nil)
	r := bufio.NewReader(c.client)
	for {
		message, err := c.codec.fromClient(r, c.link.request)
		if err != nil {
			c.report(err)
			return
		}
		c.send(to, message)
	}
}

func (c *conn) readServer(to chan<- parcel) {
	defer c.send(to, nil)
	r := bufio.NewReader(c.server)
	for {
		message, fate, err := c.codec.fromServer(r)
		if err != nil {
			c.report(err)
			return
		}
		switch fate {
		case forward:
			c.send(to, message)
		case cut:
			return
		case swallow:
		}
	}
}

// report fails the test if the link could not do its work; that a connection
// ended, in the middle of a message or not, is no failure.
func (c *conn) report(err error) {
	var network net.Error
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) {
		return
	}
	c.link.unreadable.Do(func() { c.link.tb.Errorf("link to %s: %v", c.server.RemoteAddr(), err) })
}

func (c *conn) send(to chan<- parcel, message []byte) {
	select {
	case to <- parcel{message, time.Now()}:
	case <-c.closed:
	}
}

// write writes parcels when they are due. The last one closes the connection:
// whichever side ended it, the other hears of it after all that came before.
func (c *conn) write(to net.Conn, from <-chan parcel) {
	defer c.close()
	for {
		select {
		case p := <-from:
			if !c.wait(p) || p.bytes == nil {
				return
			}
			if len(p.bytes) > 1 && c.link.torn() {
				c.tear(to, p.bytes)
				return
			}
			if _, err := to.Write(p.bytes); err != nil {
				return
			}
		case <-c.closed:
			return
		}
	}
}

// wait returns when the parcel may be delivered; false: never.
func (c *conn) wait(p parcel) bool {
	thawed, delay := c.link.pace()
	if delay > 0 {
		timer := time.NewTimer(time.Until(p.read.Add(delay)))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.closed:
			return false
		}
		thawed, _ = c.link.pace()
	}
	select {
	case <-thawed:
		return true
	case <-c.closed:
		return false
	}
}

// tear delivers half of a message and resets both connections.
func (c *conn) tear(to net.Conn, message []byte) {
	_, _ = to.Write(message[:len(message)/2])
	for _, side := range []net.Conn{c.client, c.server} {
		if tcp, ok := side.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // what the peer has not read yet may be lost with it
		}
	}
}

func (c *conn) close() {
	c.once.Do(func() {
		close(c.closed)
		c.client.Close()
		c.server.Close()
	})
}
