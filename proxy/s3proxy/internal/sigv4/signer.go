package sigv4

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/plainhead"
)

// Signer signs requests to a store, for one key. It may be used by many goroutines
// at once.
type Signer struct {
	// AccessKey and SecretKey are whose requests they are, Region is that of the store.
	AccessKey, SecretKey, Region string

	keys keys
}

// EmptyHash is the SHA-256 of nothing in hex, which Sign takes of a request that
// has no body.
const EmptyHash = emptyHash

// Sign signs a request that is sent at that time, with a body of which hash is the
// SHA-256 in hex. Its URL must have a path, and no parameter that is presigned.
// What the transport adds to the header is not signed.
func (s *Signer) Sign(r *http.Request, hash string, at time.Time) { s.sign(r, hash, at) }

// sign returns what the first chunk of a body follows.
func (s *Signer) sign(r *http.Request, hash string, at time.Time) *chain {
	stamp := at.UTC().Format(stampForm)
	r.Header["X-Amz-Date"], r.Header["X-Amz-Content-Sha256"] = []string{stamp}, []string{hash}
	delete(r.Header, "Authorization")
	c := &claim{accessKey: s.AccessKey, date: stamp[:len("20060102")], stamp: stamp, region: s.Region, service: service, terminator: terminator, hashed: hash}
	c.signed = append(make([]string, 0, len(r.Header)+1), "host")
	for name := range r.Header {
		if name != "User-Agent" && name != "Content-Length" && name != "Expect" {
			c.signed = append(c.signed, plainhead.Lower(name))
		}
	}
	slices.Sort(c.signed)
	t := &target{decoded: r.URL.Path}
	if r.URL.RawQuery != "" {
		for name, values := range r.URL.Query() {
			for _, value := range values {
				t.query = append(t.query, pair{name: name, value: value})
			}
		}
	}
	canonical := c.canonical(make([]byte, 0, 1024), r, t, 0)
	sum := sha256.Sum256(canonical)
	scope := c.dated()
	key := s.keys.of(s.AccessKey, s.SecretKey, c.date, s.Region)
	mac := key.mac()
	defer key.done(mac)
	mac.Reset()
	text := append(append(canonical[:0], algorithm+"\n"...), scope...)
	mac.Write(hex.AppendEncode(text, sum[:]))
	signature := hex.AppendEncode(nil, mac.Sum(canonical[:0]))

	header := make([]byte, 0, 512)
	header = append(append(append(header, algorithm+" Credential="...), s.AccessKey...), '/')
	header = append(append(header, c.scope()...), ", SignedHeaders="...)
	header = append(appendNames(header, c.signed), ", Signature="...)
	r.Header["Authorization"] = []string{string(append(header, signature...))}
	return &chain{key: key.bytes, scope: scope, previous: signature}
}

// EscapePath returns a path as it stands in the URL of a request that is signed:
// each byte encoded but slashes and what is unreserved in RFC 3986.
func EscapePath(path string) string { return string(appendEscaped(nil, path, true)) }
