package layout

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The golden files were written by another program, from the description in
// docs/s3-layout.md.
func TestHeaderIsAsDocumented(t *testing.T) {
	t.Parallel()
	h := Header{
		Kind: Live, Generation: 3, Number: 34, Nonce: Nonce{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
		Resource: DigestOf("orders"), Issuer: DigestOf("k3v9"), Holder: DigestOf("9f8c2ab1"),
	}
	live, tombstone := golden(t, "live.bin"), golden(t, "tombstone.bin")
	if got := append(h.Bytes(), "hello\n"...); !bytes.Equal(got, live) {
		t.Errorf("live object:\n%x, want\n%x", got, live)
	}
	if got, err := Parse(live[:HeaderSize], int64(len(live))); err != nil || got != h {
		t.Errorf("live object read as %+v, %v", got, err)
	}
	h.Kind = Tombstone
	if got := h.Bytes(); !bytes.Equal(got, tombstone) {
		t.Errorf("tombstone:\n%x, want\n%x", got, tombstone)
	}
	if got, err := Parse(tombstone, int64(len(tombstone))); err != nil || got != h {
		t.Errorf("tombstone read as %+v, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	live, tombstone := golden(t, "live.bin")[:HeaderSize], golden(t, "tombstone.bin")
	changed := func(b []byte, at int, to byte) []byte {
		b = bytes.Clone(b)
		b[at] = to
		return b
	}
	for name, row := range map[string]struct {
		first []byte
		size  int64
		want  error
	}{
		"empty":                               {nil, 0, ErrBare},
		"one byte":                            {[]byte{0x89}, 1, ErrBare},
		"text":                                {bytes.Repeat([]byte("a"), HeaderSize), 1000, ErrBare},
		"60 bytes of text":                    {bytes.Repeat([]byte("a"), 60), 60, ErrBare},
		"magic with line ends changed":        {append([]byte("\x89FTK\n"), live[6:]...), 63, ErrBare},
		"magic alone":                         {live[:6], 6, ErrDamaged},
		"cut":                                 {live[:63], 63, ErrDamaged},
		"less than there is":                  {live[:60], 64, ErrDamaged},
		"version 2":                           {changed(live, 6, 2), 64, ErrDamaged},
		"unknown kind":                        {changed(live, 7, 'X'), 64, ErrDamaged},
		"tombstone with a payload":            {changed(live, 7, 'T'), 64, ErrDamaged},
		"live object of a tombstone's size":   {changed(tombstone, 7, 'L'), 60, ErrDamaged},
		"number below 0":                      {changed(tombstone, 12, 0xff), 60, ErrDamaged},
		"number 0":                            {changed(tombstone, 19, 0), 60, ErrDamaged},
		"a bit of the nonce":                  {changed(live, 20, 1), 64, ErrDamaged},
		"a bit of the checksum":               {changed(live, 63, live[63]^1), 64, ErrDamaged},
		"a tombstone with one byte behind it": {append(bytes.Clone(tombstone), 0), 61, ErrDamaged},
	} {
		if h, err := Parse(row.first, row.size); !errors.Is(err, row.want) || h != (Header{}) {
			t.Errorf("%s: %+v, %v, want %v", name, h, err, row.want)
		}
	}
}

// What is read prints as what was read, and nothing else is a header.
func FuzzParse(f *testing.F) {
	f.Add(golden(f, "live.bin"), int64(70))
	f.Add(golden(f, "tombstone.bin"), int64(60))
	f.Add([]byte("plain"), int64(5))
	f.Fuzz(func(t *testing.T, first []byte, size int64) {
		h, err := Parse(first, size)
		if err != nil {
			if !errors.Is(err, ErrBare) && !errors.Is(err, ErrDamaged) || h != (Header{}) {
				t.Errorf("%+v, %v", h, err)
			}
			return
		}
		if again := h.Bytes(); !bytes.Equal(again, first) {
			t.Errorf("%x is printed as %x", first, again)
		}
	})
}

// What is printed is read as what was printed, if it may be a header at all.
func FuzzBytes(f *testing.F) {
	f.Add(byte('L'), uint32(3), int64(34), []byte("0123456789abcdef"), "orders", int64(5))
	f.Add(byte('T'), uint32(0), int64(1), []byte{}, "", int64(0))
	f.Fuzz(func(t *testing.T, kind byte, generation uint32, number int64, nonce []byte, name string, payload int64) {
		h := Header{Kind: Kind(kind), Generation: generation, Number: number, Resource: DigestOf(name), Issuer: DigestOf(name + "i")}
		copy(h.Nonce[:], nonce)
		b := h.Bytes()
		size := int64(len(b))
		if h.Kind == Live && payload > 0 && payload < 1<<50 {
			size += payload
		}
		got, err := Parse(b, size)
		if valid := (h.Kind == Live || h.Kind == Tombstone) && number > 0; !valid {
			if err == nil {
				t.Errorf("%+v is read as %+v", h, got)
			}
		} else if err != nil || got != h {
			t.Errorf("%+v is read as %+v, %v", h, got, err)
		}
	})
}
