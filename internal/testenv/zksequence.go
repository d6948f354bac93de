package testenv

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// SetSequence has the next sequential node in the directory at path get that
// number: it restarts the server on data that say so. Only a private server
// with zookeeper.digest.enabled=false takes them.
func (s *ZooKeeperServer) SetSequence(tb testing.TB, path string, next int32) {
	tb.Helper()
	if s.proc.box != nil {
		tb.Skipf("testenv: ZooKeeper's files are %v", errNotContained)
	}
	s.Restart(tb) // has it write a snapshot of all that there is
	s.proc.end()
	s.must(tb, s.patchSequence(path, next))
	s.must(tb, s.start())
}

// patchSequence changes the newest snapshot (org.apache.zookeeper.server.DataTree,
// serialize).
func (s *ZooKeeperServer) patchSequence(path string, next int32) error {
	files, err := filepath.Glob(filepath.Join(s.data(), "version-2", "snapshot.*"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no snapshot: %w", err)
	}
	zxid := func(file string) uint64 {
		n, _ := strconv.ParseUint(file[strings.LastIndexByte(file, '.')+1:], 16, 64)
		return n
	}
	file := slices.MaxFunc(files, func(a, b string) int { return cmp.Compare(zxid(a), zxid(b)) })
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	// A node is its path, its data, its ACL, then czxid, mzxid, ctime, mtime,
	// version and, what is wanted, cversion.
	key := append(binary.BigEndian.AppendUint32(nil, uint32(len(path))), path...)
	at := bytes.Index(old, key)
	if at < 0 {
		return fmt.Errorf("%s is not in %s", path, file)
	}
	at += len(key)
	data := max(int32(binary.BigEndian.Uint32(old[at:])), 0)
	at += 4 + int(data) + 8 + 4*8 + 4
	patched := bytes.Clone(old)
	binary.BigEndian.PutUint32(patched[at:], uint32(next))
	// Near the end is the checksum of all before it.
	for end := len(old) - 8; end > at; end-- {
		if binary.BigEndian.Uint64(old[end:]) == uint64(adler32.Checksum(old[:end])) {
			binary.BigEndian.PutUint64(patched[end:], uint64(adler32.Checksum(patched[:end])))
			return os.WriteFile(file, patched, 0o600)
		}
	}
	return fmt.Errorf("no checksum in %s", file)
}
