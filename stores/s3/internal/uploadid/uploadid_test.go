package uploadid

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

var (
	secret = []byte("secret")
	begunA = ID{Header: layout.NewGrant(guard.Token{Resource: "orders", Number: 33, Mode: guard.Exclusive, Holder: "h", Issuer: "i"}, 3).
		Header(layout.Live, layout.NewNonce()), Upstream: "upstream's/+="}
	listedA = ID{Upstream: "upstream's/+="}
)

func TestSealed(t *testing.T) {
	t.Parallel()
	for _, id := range []ID{begunA, listedA} {
		text := Seal(secret, "bucket", "key", id)
		if got, err := Open(secret, "bucket", "key", text); err != nil || got != id {
			t.Errorf("opened: %+v, %v, want %+v", got, err, id)
		}
		for name, open := range map[string]func() (ID, error){
			"another secret":   func() (ID, error) { return Open([]byte("another"), "bucket", "key", text) },
			"another bucket":   func() (ID, error) { return Open(secret, "bucke", "tkey", text) },
			"another key":      func() (ID, error) { return Open(secret, "bucket", "keys", text) },
			"something behind": func() (ID, error) { return Open(secret, "bucket", "key", text+"AAAA") },
			"padding":          func() (ID, error) { return Open(secret, "bucket", "key", text+"=") },
			"a line end":       func() (ID, error) { return Open(secret, "bucket", "key", text[:8]+"\n"+text[8:]) },
			"nothing":          func() (ID, error) { return Open(secret, "bucket", "key", "") },
		} {
			if got, err := open(); !errors.Is(err, ErrBad) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b {
			b[i] ^= 0x10
			if got, err := Open(secret, "bucket", "key", base64.RawURLEncoding.EncodeToString(b)); !errors.Is(err, ErrBad) {
				t.Errorf("byte %d changed: %+v, %v", i, got, err)
			}
			b[i] ^= 0x10
		}
		for n := range b {
			if got, err := Open(secret, "bucket", "key", base64.RawURLEncoding.EncodeToString(b[:n])); !errors.Is(err, ErrBad) {
				t.Errorf("%d bytes of it: %+v, %v", n, got, err)
			}
		}
		if strings.ContainsAny(text, "/+=&? ") {
			t.Errorf("%q does not fit into a query as it is", text)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(Seal(secret, "bucket", "key", begunA))
	f.Add(Seal(secret, "bucket", "key", listedA))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := Open(secret, "bucket", "key", text)
		if err == nil && Seal(secret, "bucket", "key", id) != text {
			t.Errorf("%q opens to %+v, which is sealed another way", text, id)
		}
		if err != nil && (id != ID{} || !errors.Is(err, ErrBad)) {
			t.Errorf("%q: %+v, %v", text, id, err)
		}
	})
}
