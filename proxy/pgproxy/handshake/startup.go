package handshake

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/fenceproxy/fenceproxy/proxy/pgproxy/internal/refusal"
)

// Codes of a first packet, where a StartupMessage has its version.
//
// https://www.postgresql.org/docs/current/protocol-message-formats.html
const (
	codeCancel = 80877102
	codeSSL    = 80877103
	codeGSSENC = 80877104

	protocol30 = 3 << 16

	minStartup = 8
	maxStartup = 10_000 + 4 // MAX_STARTUP_PACKET_LENGTH of the server, and the length itself
	maxCancel  = 12 + 256   // a key has at most 256 bytes (3.2)
)

// startup is a StartupMessage.
type startup struct {
	packet  []byte // as it came
	version uint32

	user, database, application string
	replication                 bool
}

// parseStartup looks into a StartupMessage as the server does: what it would
// refuse for its form is refused here, so that both see the same parameters.
func parseStartup(packet []byte) (*startup, error) {
	s := &startup{packet: packet, version: binary.BigEndian.Uint32(packet[4:])}
	if s.version>>16 != 3 {
		return nil, refusal.Version(s.version)
	}
	rest := packet[8:]
	for len(rest) > 0 && rest[0] != 0 {
		name, after, ok := bytes.Cut(rest, []byte{0})
		if !ok {
			break
		}
		value, after, ok := bytes.Cut(after, []byte{0})
		if !ok {
			break
		}
		s.set(string(name), string(value))
		rest = after
	}
	if len(rest) != 1 || rest[0] != 0 {
		return nil, refusal.Packet("invalid startup packet layout: expected terminator as last byte")
	}
	if s.database == "" {
		s.database = s.user
	}
	return s, nil
}

// set takes one parameter; of one that comes twice the last counts, but for
// replication, where any counts.
func (s *startup) set(name, value string) {
	switch name {
	case "user":
		s.user = value
	case "database":
		s.database = value
	case "application_name":
		s.application = value
	case "replication":
		s.replication = s.replication || !isFalse(value)
	}
}

// isFalse says whether the server takes value for a boolean that is false: an
// unambiguous beginning of the word, in any case.
func isFalse(value string) bool {
	v := strings.ToLower(value)
	return v == "0" || begins(v, "false") || begins(v, "no") || begins(v, "off") && v != "o"
}

func begins(v, word string) bool { return v != "" && len(v) <= len(word) && word[:len(v)] == v }
