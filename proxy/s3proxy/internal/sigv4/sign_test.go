package sigv4

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Here requests are signed as AWS's documentation says, the obvious way: on the
// text of the head, with none of the code under test.

const unsignedSum = "UNSIGNED-PAYLOAD"

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// scribe signs for a key, at a time, for a place. The zero value signs as AWS's
// examples do.
type scribe struct {
	key, secret, stamp, scope string
	// asIs signs path and query as they are sent, as some clients do.
	asIs bool
	// spaces signs two spaces in a header as two.
	spaces bool
	// off is by how much x-amz-decoded-content-length is wrong.
	off int
	// hash is x-amz-content-sha256, if no header says it.
	hash string
}

func (s scribe) filled() scribe {
	for field, value := range map[*string]string{&s.key: exampleKey, &s.secret: exampleSecret, &s.stamp: exampleStamp, &s.scope: exampleScope} {
		if *field == "" {
			*field = value
		}
	}
	return s
}

// of is the signature over a string to sign.
func (s scribe) of(text string) string {
	key := []byte("AWS4" + s.secret)
	for part := range strings.SplitSeq(s.scope, "/") {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, text))
}

// signature signs a head, of which it covers the headers that are named.
func (s scribe) signature(head string, names ...string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(head), "\n")
	method, target, _ := strings.Cut(strings.TrimSuffix(line, " HTTP/1.1"), " ")
	path, query, _ := strings.Cut(target, "?")
	var pairs []string
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if !s.asIs {
			name, value = normal(name, url.QueryUnescape), normal(value, url.QueryUnescape)
		}
		if pair != "" {
			pairs = append(pairs, name+"\x00="+value) // sorts by name first
		}
	}
	slices.Sort(pairs)
	if !s.asIs {
		path = strings.ReplaceAll(normal(path, url.PathUnescape), "%2F", "/")
	}
	var headers strings.Builder
	canonical := method + "\n" + path + "\n" + strings.ReplaceAll(strings.Join(pairs, "&"), "\x00", "") + "\n"
	hash := s.hash
	for _, name := range names {
		var values []string
		for header := range strings.SplitSeq(rest, "\n") {
			if n, value, _ := strings.Cut(header, ":"); strings.EqualFold(n, name) {
				if value = strings.Trim(value, " \t"); !s.spaces {
					value = regexp.MustCompile("[ \t]+").ReplaceAllString(value, " ")
				}
				values = append(values, value)
			}
		}
		if hash == "" && name == "x-amz-content-sha256" {
			hash = values[0]
		}
		headers.WriteString(name + ":" + strings.Join(values, ",") + "\n")
	}
	canonical += headers.String() + "\n" + strings.Join(names, ";") + "\n" + hash
	return s.of("AWS4-HMAC-SHA256\n" + s.stamp + "\n" + s.scope + "\n" + sha(canonical))
}

func normal(text string, decode func(string) (string, error)) string {
	decoded, _ := decode(text)
	var b strings.Builder
	for _, c := range []byte(decoded) {
		if strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// header adds x-amz-date and Authorization to a head.
func (s scribe) header(head string, names ...string) string {
	s = s.filled()
	head = strings.TrimSpace(head) + "\nx-amz-date: " + s.stamp + "\n"
	return head + fmt.Sprintf("Authorization: AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s\n",
		s.key, s.scope, strings.Join(names, ";"), s.signature(head, names...))
}

// query presigns a head for ten minutes.
func (s scribe) query(head string, names ...string) string {
	s = s.filled()
	if s.hash == "" {
		s.hash = unsignedSum
	}
	line, rest, _ := strings.Cut(strings.TrimSpace(head), "\n")
	target := strings.TrimSuffix(line, " HTTP/1.1")
	if strings.Contains(target, "?") {
		target += "&"
	} else {
		target += "?"
	}
	target += "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" + url.QueryEscape(s.key+"/"+s.scope) + "&X-Amz-Date=" + s.stamp +
		"&X-Amz-Expires=600&X-Amz-SignedHeaders=" + url.QueryEscape(strings.Join(names, ";"))
	signature := s.signature(target+" HTTP/1.1\n"+rest, names...)
	return target + "&X-Amz-Signature=" + signature + " HTTP/1.1\n" + rest
}

// put is the head of a PUT that is signed in its header, and its signature.
func (s scribe) put(sum string, size int, headers ...string) (head, signature string) {
	head = fmt.Sprintf("PUT /bucket/key HTTP/1.1\nHost: s3.example\nContent-Length: %d\nx-amz-content-sha256: %s\n%s\n", size, sum, strings.Join(headers, "\n"))
	names := []string{"content-length", "host", "x-amz-content-sha256", "x-amz-date"}
	for _, header := range headers {
		name, _, _ := strings.Cut(strings.ToLower(header), ":")
		names = append(names, name)
	}
	slices.Sort(names)
	head = s.header(head, names...)
	return head, head[strings.LastIndex(head, "=")+1 : len(head)-1]
}

// chunks frames a payload, signed if there is a signature to go on from. A
// trailer is lines without their ends.
func (s scribe) chunks(seed string, trailer []string, chunks ...string) string {
	s = s.filled()
	var b bytes.Buffer
	for _, chunk := range append(chunks, "") {
		fmt.Fprintf(&b, "%x", len(chunk))
		if seed != "" {
			seed = s.of("AWS4-HMAC-SHA256-PAYLOAD\n" + s.stamp + "\n" + s.scope + "\n" + seed + "\n" + sha("") + "\n" + sha(chunk))
			b.WriteString(";chunk-signature=" + seed)
		}
		b.WriteString("\r\n" + chunk)
		if chunk != "" {
			b.WriteString("\r\n")
		}
	}
	if trailer == nil {
		return b.String() + "\r\n"
	}
	for _, line := range trailer {
		b.WriteString(line + "\r\n")
	}
	if seed != "" {
		b.WriteString("x-amz-trailer-signature:" + s.of("AWS4-HMAC-SHA256-TRAILER\n"+s.stamp+"\n"+s.scope+"\n"+seed+"\n"+sha(strings.Join(trailer, "\n")+"\n")) + "\r\n")
	}
	return b.String() + "\r\n"
}

// upload is a PUT of a payload in a mode, whole, and where its body begins.
func (s scribe) upload(mode string, trailer []string, chunks ...string) (head, body string) {
	size := len(strings.Join(chunks, "")) + s.off
	headers := []string{fmt.Sprintf("x-amz-decoded-content-length: %d", size), "content-encoding: aws-chunked"}
	if trailer != nil {
		name, _, _ := strings.Cut(trailer[0], ":")
		headers = append(headers, "x-amz-trailer: "+name)
	}
	seed := strings.Repeat("0", 64)
	if mode == unsignedTrailer {
		seed = ""
	}
	length := len(s.chunks(seed, trailer, chunks...))
	head, signature := s.put(mode, length, headers...)
	if seed != "" {
		seed = signature
	}
	return head, s.chunks(seed, trailer, chunks...)
}
