package etag

import (
	"strconv"
	"testing"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	var m Memory
	const shown = md5 + "-crc32-b-c99465aa"
	expect := func(upload string, number int, stored, want string) {
		t.Helper()
		if got := m.Part(upload, number, stored); got != want {
			t.Errorf("part %d of %s, %s, is shown as %s, want %s", number, upload, stored, got, want)
		}
	}
	expect("u", 1, md5, md5+"-0")
	m.Remember("u", 1, md5, shown)
	m.Remember("u", 2, md5, md5) // which is what it is anyway
	expect("u", 1, md5, shown)
	expect("u", 2, md5, md5)
	expect("v", 1, md5, md5+"-0")
	expect("u", 1, "another", "another-0") // it was uploaded again
	m.Remember("u", 1, md5, md5+"-sha1-…")
	expect("u", 1, md5, md5+"-sha1-…")
	for n := range MaxRemembered - 1 {
		m.Remember("w", n, md5, strconv.Itoa(n))
	}
	expect("u", 1, md5, md5+"-sha1-…")
	m.Remember("x", 1, md5, shown)
	m.Remember("x", 2, md5, shown)
	expect("u", 1, md5, md5+"-0") // the oldest is forgotten
	expect("w", 0, md5, md5)
	expect("w", 1, md5, "1")
	expect("x", 1, md5, shown)
	expect("x", 2, md5, shown)
	if len(m.shown) != MaxRemembered || len(m.ring) != MaxRemembered {
		t.Errorf("%d and %d are remembered", len(m.shown), len(m.ring))
	}
}
