package sigv4

import (
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
)

var (
	bareHeader   = regexp.MustCompile(`^([0-9a-fA-F]{1,16})\r\n`)
	signedHeader = regexp.MustCompile(`^([0-9a-fA-F]{1,16});chunk-signature=([0-9a-f]{64})\r\n`)
)

// reference decodes an aws-chunked body the obvious way: all of it in memory, by
// what the documentation says, and slowly. It tells whether the body is right.
func (s scribe) reference(body, seed string, size int, announced string) (string, bool) {
	s = s.filled()
	header := bareHeader
	if seed != "" {
		header = signedHeader
	}
	payload := ""
	for {
		found := header.FindStringSubmatch(body)
		if found == nil {
			return "", false
		}
		body = body[len(found[0]):]
		n, err := strconv.ParseInt(found[1], 16, 64)
		if err != nil || n > int64(size-len(payload)) || n > 0 && int64(len(body)) < n+2 {
			return "", false
		}
		chunk := body[:n]
		if n > 0 {
			if body[n:n+2] != "\r\n" {
				return "", false
			}
			body = body[n+2:]
		}
		if seed != "" {
			seed = s.of("AWS4-HMAC-SHA256-PAYLOAD\n" + s.stamp + "\n" + s.scope + "\n" + seed + "\n" + sha("") + "\n" + sha(chunk))
			if seed != found[2] {
				return "", false
			}
		}
		payload += chunk
		if n == 0 {
			break
		}
	}
	return payload, len(payload) == size && s.referenceTrailer(body, seed, payload, announced)
}

// referenceTrailer tells whether what follows the last chunk is right. Announced
// is "" for a trailer without fields, and "-" for none.
func (s scribe) referenceTrailer(body, seed, payload, announced string) bool {
	if len(body) > 1024 {
		return false
	}
	text, signature := "", ""
	for line := range strings.SplitSeq(body, "\n") {
		line = strings.TrimSuffix(line, "\r")
		name, value, _ := strings.Cut(line, ":")
		name, value = strings.ToLower(name), strings.Trim(value, " \t")
		switch {
		case line == "":
		case signature != "", announced == "-", !strings.Contains(line, ":"):
			return false
		case name == "x-amz-trailer-signature" && seed != "":
			signature = value
		case name == announced && text == "":
			if value != checksumOf(strings.TrimPrefix(name, "x-amz-checksum-"), payload) {
				return false
			}
			text = name + ":" + value + "\n"
		default:
			return false
		}
	}
	if announced == "-" {
		return true
	}
	if (text == "") != (announced == "") {
		return false
	}
	return seed == "" || signature == s.of("AWS4-HMAC-SHA256-TRAILER\n"+s.stamp+"\n"+s.scope+"\n"+seed+"\n"+sha(text))
}

func checksumOf(name, payload string) string {
	h := newHash(name)
	h.Write([]byte(payload))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}
