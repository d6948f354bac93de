package etag

import (
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

const md5 = "d41d8cd98f00b204e9800998ecf8427e"

func TestShownAndNamed(t *testing.T) {
	t.Parallel()
	for etag, want := range map[string]string{md5: md5 + "-0", md5 + "-2": md5 + "-2"} {
		if got := Shown(etag); got != want {
			t.Errorf("%q is shown as %q", etag, got)
		}
		for _, named := range []string{want, Quoted(want), " " + Quoted(want) + " "} {
			if got := Named(named); got != etag {
				t.Errorf("%q names %q, want %q", named, got, etag)
			}
		}
	}
	for named, want := range map[string]string{"": "", "*": "*", " * ": "*", `"*"`: "-", `""`: "-", " ": "-", "*-0": "*-0", `"*-0"`: "*-0", "-0": "-0"} {
		if got := Named(named); got != want {
			t.Errorf("%q names %q, want %q", named, got, want)
		}
	}
}

// What a part's ETag is sealed with comes back, for each checksum, whatever the
// store's ETag is; and its text is no MD5.
func TestVerified(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		for _, stored := range []string{md5, "odd-etag-of-the-store", ""} {
			for number := range 3 {
				sum := kind.EncodeToString([]byte(stored))
				shown := Verified(number, stored, map[string]string{kind.Key(): sum}, 5<<30)
				got, opened, told := NamedPart(number, shown)
				if !told || got != stored || opened != (Sum{kind, sum, 5 << 30}) || !strings.Contains(shown, "-") {
					t.Errorf("%s is opened as %q, %+v, %v", shown, got, opened, told)
				}
			}
		}
	}
	if got, want := Verified(2, md5, map[string]string{"x-amz-checksum-crc32c": "yZRlqg=="}, 11), md5+"-crc32c-b-c99465aa"; got != want {
		t.Errorf("sealed as %s, want %s", got, want)
	}
}

func TestPartWithoutSum(t *testing.T) {
	t.Parallel()
	for number, want := range map[int]string{1: md5 + "-0", 2: md5} {
		for _, sums := range []map[string]string{nil, {}, {"x-amz-checksum-xxhash64": "AAAAAAAAAAA="}, {"x-amz-checksum-crc32": "AA=="}} {
			if got := Verified(number, md5, sums, 1); got != want {
				t.Errorf("part %d with %v is shown as %s", number, sums, got)
			}
		}
		if got, _, told := NamedPart(number, want); got != md5 || told {
			t.Errorf("%s of part %d names %s, %v", want, number, got, told)
		}
	}
	for _, odd := range []string{"", "-", "---", md5 + "-crc32-b-c99465", md5 + "-crc32--c99465aa", md5 + "-crc32-g-c99465aa", md5 + "-crc32-ffffffffffffffff-c99465aa", md5 + "-md5-b-c99465aa", "crc32-b-c99465aa", "*"} {
		if got, sum, told := NamedPart(2, odd); got != odd || told {
			t.Errorf("%q names %q, %+v", odd, got, sum)
		}
	}
	if _, known := TypeOf("SHA512"); known {
		t.Error("no part is verified by SHA512")
	}
	if kind, known := TypeOf("CRC64NVME"); !known || kind != minio.ChecksumCRC64NVME {
		t.Errorf("CRC64NVME is %v, %v", kind, known)
	}
}
