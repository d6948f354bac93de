package link

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// zooKeeperCodec reads the protocol of ZooKeeper's clients: frames with their
// length in front. The first of a connection opens or renews a session, each
// later one begins with its id and, from the client, with what it asks for
// (org.apache.zookeeper.ZooDefs.OpCode).
type zooKeeperCodec struct {
	greeted bool // the client has sent its first frame

	mu       sync.Mutex
	answered bool           // and the server has answered it
	lost     map[int32]bool // the ids of the requests whose reply is to be lost
	hello    bool           // lose the answer to the first frame
}

const (
	zkEvent = -1 // the id of a frame that answers nothing
	zkPing  = -2
)

var zkOps = map[int32]string{
	1: "create", 2: "delete", 3: "exists", 4: "getData", 5: "setData", 6: "getACL", 7: "setACL", 8: "getChildren",
	9: "sync", 12: "getChildren2", 14: "multi", 15: "create2", 19: "createContainer", 21: "createTTL",
	-11: "close", 100: "setAuth", 101: "setWatches",
}

func (c *zooKeeperCodec) fromClient(r *bufio.Reader, request func(string) bool) ([]byte, error) {
	frame, err := readFrame(r)
	if err != nil {
		return nil, err
	}
	if !c.greeted {
		c.greeted = true
		lose := request("connect")
		c.mu.Lock()
		c.hello = lose
		c.mu.Unlock()
		return frame, nil
	}
	if len(frame) < 12 {
		return nil, errUnreadable
	}
	id, op := word(frame, 4), word(frame, 8)
	if id == zkPing {
		return frame, nil
	}
	name, known := zkOps[op]
	if !known {
		name = fmt.Sprint("op ", op)
	}
	lose := request(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if lose {
		if c.lost == nil {
			c.lost = map[int32]bool{}
		}
		c.lost[id] = true
	}
	return frame, nil
}

func (c *zooKeeperCodec) fromServer(r *bufio.Reader) ([]byte, fate, error) {
	frame, err := readFrame(r)
	if err != nil {
		return nil, forward, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.answered:
		c.answered = true
		if c.hello {
			return nil, cut, nil
		}
	case len(frame) >= 8 && word(frame, 4) != zkEvent && c.lost[word(frame, 4)]:
		return nil, cut, nil
	}
	return frame, forward, nil
}

func word(frame []byte, at int) int32 { return int32(binary.BigEndian.Uint32(frame[at:])) }

// readFrame reads a frame with its length.
func readFrame(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if size > 1<<26 {
		return nil, errUnreadable
	}
	frame := make([]byte, 4+size)
	_, err = io.ReadFull(r, frame)
	return frame, err
}
