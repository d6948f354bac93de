package sigv4

import (
	"bufio"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzFrames: no body makes the decoder panic, or is decoded to anything but what
// the reference decodes it to.
func FuzzFrames(f *testing.F) {
	modes := []struct{ sum, announced string }{
		{signedChunks, "-"},
		{signedTrailer, "x-amz-checksum-crc32"},
		{unsignedTrailer, "x-amz-checksum-crc64nvme"},
		{unsignedTrailer, ""},
	}
	for _, s := range streams() {
		mode := slices.IndexFunc(modes, func(m struct{ sum, announced string }) bool { return m.sum == s.mode })
		f.Add(s.body, uint8(mode), uint16(len(s.payload)))
	}
	f.Add("3\r\nabc\r\n0\r\n\r\n", uint8(3), uint16(3))
	f.Add("3\r\nabc\r\n0\r\nx-amz-checksum-crc64nvme:AAAA\n\r\n", uint8(2), uint16(3))
	f.Fuzz(func(t *testing.T, body string, mode uint8, size uint16) {
		m := modes[int(mode)%len(modes)]
		var trailer []string
		if m.announced != "-" {
			trailer = []string{m.announced + ":"}
		}
		s := stream{mode: m.sum, announced: m.announced, payload: strings.Repeat("?", int(size))}
		s.head, _ = scribe{off: int(size)}.upload(m.sum, trailer)
		if m.announced == "" {
			s.head, _ = scribe{off: int(size)}.upload(m.sum, nil)
		}
		if m.sum != unsignedTrailer {
			s.seed = s.head[strings.LastIndex(s.head, "=")+1 : len(s.head)-1]
			// The chain that the corpus has is that of another seed.
			body = resign(body, s.seed, m.announced)
		}
		got, err := s.read(t, strings.NewReader(body), 1+int(size)%100)
		want, right := scribe{}.reference(body, s.seed, int(size), m.announced)
		if right != (err == nil) || right && got != want {
			t.Fatalf("%q: got %q %v, the reference %q %v", body, got, err, want, right)
		}
		again, err := s.read(t, iotest.OneByteReader(strings.NewReader(body)), 4096)
		if right != (err == nil) || right && again != want {
			t.Fatalf("%q, one byte at a time: %q %v", body, again, err)
		}
	})
}

// resign replaces the signatures of a well-formed stream by right ones, so that
// what is behind the first is reached; another stream stays as it is.
func resign(body, seed, announced string) string {
	var chunks []string
	rest := body
	for {
		found := signedHeader.FindStringSubmatch(rest)
		if found == nil {
			return body
		}
		rest = rest[len(found[0]):]
		n := strings.Index(rest, "\r\n")
		if strings.Trim(found[1], "0") == "" {
			break
		}
		if n < 0 {
			return body
		}
		chunks = append(chunks, rest[:n])
		rest = rest[n+2:]
	}
	if announced == "-" {
		return scribe{}.chunks(seed, nil, chunks...) + strings.TrimPrefix(rest, "\r\n")
	}
	line, _, _ := strings.Cut(rest, "\r\n")
	return scribe{}.chunks(seed, []string{line}, chunks...)
}

// FuzzAuthorization: no header makes Verify panic, or is taken for the right one
// without its signature.
func FuzzAuthorization(f *testing.F) {
	good := head(getHead)
	good = strings.TrimSpace(good[strings.Index(good, "Authorization: ")+len("Authorization: "):])
	signature := good[strings.LastIndex(good, "=")+1:]
	for _, text := range []string{good, strings.ReplaceAll(good, ", ", ","), "AWS a:b", "AWS4-ECDSA-P256-SHA256 Credential=a", "Bearer x", "", good + ",", strings.ToLower(good)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := request(t, head(getHead), strings.NewReader(""))
		r.Header["Authorization"] = []string{text}
		if _, err := at(exampleTime()).Verify(r); (code(err) == "") != (err == nil) || err == nil && !strings.Contains(text, signature) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// FuzzTarget: a path and a query mean to Verify what they mean to net/url, and
// are good if they are signed as the reference signs them, in a header or in
// the query.
func FuzzTarget(f *testing.F) {
	for _, path := range awkward {
		f.Add(path+"?prefix=a%20b", false)
	}
	presigned, _, _ := strings.Cut(strings.TrimPrefix(scribe{}.query(getBare, "host"), "GET "), " ")
	signature := presigned[strings.LastIndex(presigned, "=")+1:]
	f.Add(presigned, true)
	for _, query := range []string{"?acl", "?a=2&a=1&=&b", "?a;b", "?a=%zz", "?X-Amz-Signature=x&X-Amz-Signature=y", "?AWSAccessKeyId=a&Signature=b"} {
		f.Add("/b/k"+query, true)
	}
	f.Fuzz(func(t *testing.T, target string, asIs bool) {
		line := "GET " + target + " HTTP/1.1\nHost: s3.example"
		if strings.ContainsAny(target, " \r\n") || !strings.HasPrefix(target, "/") {
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(line, "\n", "\r\n") + "\r\n\r\n")))
		if err != nil {
			return
		}
		parsed, err := parseTarget(r)
		if _, err := at(exampleTime()).Verify(r); err == nil && !strings.Contains(target, signature) {
			t.Fatalf("%q is admitted", target)
		}
		if err != nil {
			return
		}
		query := map[string][]string{}
		for _, p := range parsed.query {
			query[p.name] = append(query[p.name], p.value)
		}
		if want := r.URL.Query(); parsed.decoded != r.URL.Path || !maps.EqualFunc(query, want, slices.Equal[[]string]) {
			t.Fatalf("%q: %q and %q, url has %q and %q", target, parsed.decoded, query, r.URL.Path, want)
		}
		if strings.Contains(target, "mz") || strings.Contains(target, "%") && strings.Contains(target, "X") || strings.Contains(target, "AWS") {
			return // of its own signature
		}
		s := scribe{asIs: asIs}
		for _, head := range []string{s.header(line+"\nx-amz-content-sha256: "+unsignedSum, sumNames...), s.query(line, "host")} {
			if err := headError(t, head); err != nil {
				t.Fatalf("%q: %v", head, err)
			}
		}
	})
}
