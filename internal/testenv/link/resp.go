package link

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// respCodec reads the protocol of Redis, RESP 2 and 3
// (https://redis.io/docs/latest/develop/reference/protocol-spec/).
type respCodec struct {
	mu         sync.Mutex
	resp3      bool
	subscribed bool   // by RESP 2, messages and replies look alike from now on
	pending    []bool // a reply is to come for each; true: lose it
	hangUp     bool   // lose whatever comes next
	copies     bool   // the client is a replica, and neither side keeps to the protocol any more
}

func (c *respCodec) fromClient(r *bufio.Reader, request func(string) bool) ([]byte, error) {
	if c.isCopy() {
		return readSome(r)
	}
	message, args, err := readCommand(r)
	if err != nil {
		return nil, err
	}
	lose := request(commandPath(args))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch name := commandName(args); {
	case name == "HELLO" && len(args) > 1 && string(args[1]) == "3":
		c.resp3 = true
		c.pending = append(c.pending, lose)
	case name == "PSYNC" || name == "SYNC":
		c.copies = true // before the server knows
	case strings.HasSuffix(name, "SUBSCRIBE"):
		// It is answered by messages, which are no replies in RESP 3.
		c.subscribed = true
		c.hangUp = c.hangUp || lose
	default:
		c.pending = append(c.pending, lose)
	}
	return message, nil
}

func (c *respCodec) fromServer(r *bufio.Reader) ([]byte, fate, error) {
	// What the server sends is read by what it answers: its first byte comes after
	// the request.
	if _, err := r.Peek(1); err != nil {
		return nil, forward, err
	}
	if c.isCopy() {
		message, err := readSome(r)
		return message, forward, err
	}
	message, err := readReply(r)
	if err != nil {
		return nil, forward, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.hangUp:
		return nil, cut, nil
	case message[0] == '>', c.subscribed && !c.resp3, len(c.pending) == 0:
		return message, forward, nil
	}
	lose := c.pending[0]
	c.pending = c.pending[1:]
	if lose {
		return nil, cut, nil
	}
	return message, forward, nil
}

func (c *respCodec) isCopy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.copies
}

func commandName(args [][]byte) string { return strings.ToUpper(string(args[0])) }

// commandPath is the command's name and, if it runs a script, the script's
// first argument after the keys.
func commandPath(args [][]byte) string {
	name := commandName(args)
	if (name != "EVAL" && name != "EVALSHA") || len(args) < 3 {
		return name
	}
	keys, err := strconv.Atoi(string(args[2]))
	if err != nil || keys < 0 || 3+keys >= len(args) {
		return name
	}
	return name + " " + string(args[3+keys])
}

// readCommand reads an array of bulk strings, and returns its bytes too.
func readCommand(r *bufio.Reader) (message []byte, args [][]byte, err error) {
	head, n, err := readHead(r)
	if err != nil {
		return nil, nil, err
	}
	if head[0] != '*' || n < 1 {
		return nil, nil, errUnreadable
	}
	message = head
	for range n {
		item, err := readReply(r)
		if err != nil {
			return nil, nil, err
		}
		_, body, found := bytes.Cut(item, []byte("\r\n"))
		if item[0] != '$' || !found {
			return nil, nil, errUnreadable
		}
		message = append(message, item...)
		args = append(args, bytes.TrimSuffix(body, []byte("\r\n")))
	}
	return message, args, nil
}

// readReply reads one value with all that is in it.
func readReply(r *bufio.Reader) ([]byte, error) {
	message, n, err := readHead(r)
	if err != nil {
		return nil, err
	}
	items := 0
	switch message[0] {
	case '+', '-', ':', '_', ',', '#', '(':
	case '$', '!', '=':
		if n < 0 {
			return message, nil
		}
		body := make([]byte, n+len("\r\n"))
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, err
		}
		message = append(message, body...)
	case '*', '~', '>':
		items = n
	case '%':
		items = 2 * n
	case '|': // attributes, in front of the value that they belong to
		items = 2*n + 1
	default:
		return nil, errUnreadable
	}
	for range items {
		item, err := readReply(r)
		if err != nil {
			return nil, err
		}
		message = append(message, item...)
	}
	return message, nil
}

// readHead reads a line, and the number in it if it is one of a length.
func readHead(r *bufio.Reader) (line []byte, n int, err error) {
	line, err = r.ReadSlice('\n')
	if err != nil {
		return nil, 0, err
	}
	line = slices.Clone(line)
	if len(line) < len("*\r\n") {
		return nil, 0, errUnreadable
	}
	if strings.IndexByte("$!=*~>%|", line[0]) >= 0 {
		n, err = strconv.Atoi(string(bytes.TrimSpace(line[1:])))
		if err != nil || n > 1<<26 {
			return nil, 0, errUnreadable
		}
	}
	return line, n, nil
}
