package handshake

import (
	"encoding/binary"
	"net"
	"strings"
)

// startupPacket is a StartupMessage with parameters by name and value.
func startupPacket(version uint32, params ...string) []byte {
	p := binary.BigEndian.AppendUint32(make([]byte, 4), version)
	for _, text := range params {
		p = append(append(p, text...), 0)
	}
	p = append(p, 0)
	binary.BigEndian.PutUint32(p, uint32(len(p)))
	return p
}

func request(code uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, minStartup), code)
}

func cancelPacket(key []byte) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(8+len(key)))
	return append(binary.BigEndian.AppendUint32(p, codeCancel), key...)
}

// frame is a message of a type.
func frame(kind byte, body ...string) []byte {
	b := strings.Join(body, "")
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(b))), b...)
}

func auth(code byte, data ...string) []byte {
	return frame('R', append([]string{"\x00\x00\x00" + string(code)}, data...)...)
}

// readStartup reads a StartupMessage, and SSLRequests, which it answers with N.
func readStartup(conn net.Conn) {
	for {
		b, err := readN(conn, nil, 8)
		if err != nil {
			return
		}
		if binary.BigEndian.Uint32(b[4:]) != codeSSL {
			_, _ = readN(conn, nil, int(binary.BigEndian.Uint32(b))-8)
			return
		}
		_, _ = conn.Write([]byte{'N'})
	}
}
