package link

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// http2Codec reads frames (RFC 9113).
type http2Codec struct {
	client, server *frameReader
	preface        bool
	last           uint32 // the client's newest stream

	mu   sync.Mutex
	lose []uint32 // streams
}

// frameReader is a Framer that keeps the bytes of the frame that it read.
type frameReader struct {
	*http2.Framer
	raw bytes.Buffer
}

func newFrameReader(r io.Reader) *frameReader {
	f := &frameReader{}
	f.Framer = http2.NewFramer(nil, io.TeeReader(r, &f.raw))
	return f
}

// next reads one frame, or a whole header block, and its bytes.
func (f *frameReader) next() (http2.Frame, []byte, error) {
	f.raw.Reset()
	frame, err := f.ReadFrame()
	return frame, slices.Clone(f.raw.Bytes()), err
}

func (c *http2Codec) fromClient(r *bufio.Reader, request func(string) bool) ([]byte, error) {
	if !c.preface {
		message := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(r, message); err != nil {
			return nil, err
		}
		if string(message) != http2.ClientPreface {
			return nil, errUnreadable
		}
		c.preface = true
		c.client = newFrameReader(r)
		c.client.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
		// The server may have allowed the client a larger table.
		c.client.ReadMetaHeaders.SetAllowedMaxDynamicTableSize(1 << 20)
		return message, nil
	}
	frame, raw, err := c.client.next()
	if err != nil {
		return nil, err
	}
	headers, ok := frame.(*http2.MetaHeadersFrame)
	if !ok || headers.StreamID <= c.last {
		return raw, nil // trailers are no new request
	}
	c.last = headers.StreamID
	if request(headers.PseudoValue("path")) {
		c.mu.Lock()
		c.lose = append(c.lose, headers.StreamID)
		c.mu.Unlock()
	}
	return raw, nil
}

func (c *http2Codec) fromServer(r *bufio.Reader) ([]byte, fate, error) {
	if c.server == nil {
		c.server = newFrameReader(r)
	}
	frame, raw, err := c.server.next()
	if err != nil {
		return nil, forward, err
	}
	switch frame.Header().Type {
	case http2.FrameHeaders, http2.FrameData, http2.FrameRSTStream:
		c.mu.Lock()
		defer c.mu.Unlock()
		if slices.Contains(c.lose, frame.Header().StreamID) {
			return nil, cut, nil
		}
	}
	return raw, forward, nil
}
