package testenv

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv/link"
)

// What a Link understands of the bytes that pass it; see package link.
const (
	Bytes         = link.Bytes
	HTTP2         = link.HTTP2
	PostgresWire  = link.PostgresWire
	RESP          = link.RESP
	ZooKeeperWire = link.ZooKeeperWire
)

// LinkConfig says what kind of link it is.
type LinkConfig = link.Config

// Link is a TCP link to a server that can be slow, stuck, cut, or lose a reply.
type Link = link.Link

// NewLink opens a link to target, host:port. It ends with the test.
func NewLink(tb testing.TB, target string, c LinkConfig) *Link {
	tb.Helper()
	return link.New(tb, target, c)
}
