package s3clients_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write what clients say when they are refused into testdata")

// now are the years in which it may be now. Times that clients have named are
// others.
var now = fmt.Sprintf("(?:%d|%d)", time.Now().UTC().Year(), time.Now().UTC().Add(time.Hour).Year())

// varying is what differs from one run to the next, or by the frame alone.
var varying = []struct {
	pattern *regexp.Regexp
	instead string
}{
	// An ETag of the proxy's is no MD5 and does not look like one.
	{regexp.MustCompile(`\b[0-9a-f]{32}(-0|-(crc32|crc32c|crc64nvme|sha1|sha256)-[0-9a-f]+-[0-9a-f]+)?\b`), "ETAG"},
	{regexp.MustCompile(`\b[0-9a-f]{32}-(\d+)\b`), "ETAG-$1"},
	{regexp.MustCompile(`\w{3}, \d\d \w{3} ` + now + ` [\d:]{8} GMT`), "TIME"},
	{regexp.MustCompile(now + `[-/]\d\d[-/]\d\d[T ][\d:.]+(Z|\+00:00)?`), "TIME"},
	{regexp.MustCompile(`((?i:request[- ]?id)\W{1,4})[0-9A-Z]{16}`), "${1}REQUEST"},
	// The proxy words it as Amazon does.
	{regexp.MustCompile(`did not hold\.`), "did not hold"},
	{regexp.MustCompile(` The upload ID may be invalid, or the upload may have been aborted or completed\.`), ""},
	{regexp.MustCompile(`Content-M[dD]5 you`), "Content-MD5 you"},
	{regexp.MustCompile(`(/BUCKET/[\w-]+)%2F`), "$1/"}, // the Location of an upload
	// The server stores how the proxy, or a client, sent it. The proxy never shows it.
	{regexp.MustCompile(` Content-Encoding="aws-chunked"|,"ContentEncoding":"aws-chunked"|'ContentEncoding': 'aws-chunked', |'content-encoding': 'aws-chunked', `), ""},
	// Amazon answers 412, says of a quiet delete what failed, and tells the prefix
	// as encoded as the keys.
	{regexp.MustCompile(`(copy if none match copy_object): (304 304: Not Modified|412 PreconditionFailed[^;]*)`), "$1: as Amazon"},
	{regexp.MustCompile(`(quietly delete_objects: \{)'Deleted': \[[^\]]*\], `), "$1"},
	{regexp.MustCompile(`'Prefix': 'a(\+|%20)b%2Bc/'`), "'Prefix': 'a b+c/'"},
	// An upload without part 1 has nowhere to put the frame.
	{regexp.MustCompile(`(no such part complete_multipart_upload): (400 InvalidPart|501 FenceUnsupported).*`), "$1: refused"},
	// ACLs are not the proxy's, who answers 501.
	{regexp.MustCompile(`(?m)^   ACL:       (none|ACCESS: FULL_CONTROL)$`), "   ACL"},
	// An ETag of the proxy's is no MD5, so rclone has none to compare.
	{regexp.MustCompile(`(?m)^NOTICE: .* hashes could not be checked\n`), ""},
	{regexp.MustCompile(`(?m)^([^;\n]+;\d+;)(?:ETAG)?(;\w+/)`), "$1$2"},
	// Checksums that the server has made up by itself, or of an upload in parts.
	{regexp.MustCompile(`(?m)^(put multi/put \d+)  [\w+/]{6}==-3   $`), "$1     "},
	{regexp.MustCompile(`(?m)^((?:put|get) .*?\d+)   [\w+/]{11}=  $`), "$1     "},
	// What s3cmd notes of a file.
	{regexp.MustCompile(`[acm]time:\d+`), "TIME"},
	{regexp.MustCompile(`((?:UploadId|UploadID|ID)\W{1,5})[\w-]{36,}`), "${1}UPLOAD"},
}

// plain is what a client says, without what differs from one run to the next.
func (w *world) plain(said string) string {
	said = strings.NewReplacer(w.bucket, "BUCKET", w.tap.addr, "ENDPOINT", w.access, "ACCESS", w.server.AccessKey, "ACCESS").Replace(said)
	for _, v := range varying {
		said = v.pattern.ReplaceAllString(said, v.instead)
	}
	return said
}

// golden compares what a client says when it is refused, and what it asks for,
// with testdata.
func (c client) golden(t *testing.T, way, got string) {
	t.Helper()
	path := filepath.Join("testdata", strings.ReplaceAll(c.name, " ", "_")+"."+way)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what comes of it", string(want), got)
}

func (b way) String() string {
	if int(b) < len(ways) {
		return ways[b]
	}
	return fmt.Sprint(uint8(b))
}

var ways = [...]string{"direct", "current", "overtaken", "stale", "untokened"}
