package sigv4

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/internal/plainhead"
)

// What a signature says of itself.
const (
	algorithm  = "AWS4-HMAC-SHA256"
	service    = "s3"
	terminator = "aws4_request"
	stampForm  = "20060102T150405Z"
)

// maxExpires is the longest life of a presigned request.
const maxExpires = 7 * 24 * time.Hour

// Config says whose signatures are good, and where.
type Config struct {
	// Region is the one that clients sign for. Defaults to "us-east-1".
	Region string
	// Secret returns the secret key that belongs to an access key, and whether
	// there is one. It is called by many goroutines at once. An empty secret
	// counts as none. If nil, no key is known.
	Secret func(accessKey string) (string, bool)
	// Now is the time. Defaults to time.Now.
	Now func() time.Time
	// MaxSkew is by how much the date of a request may differ from Now, either
	// way. Defaults to 15 minutes, as S3 has it.
	MaxSkew time.Duration
}

// Verifier verifies requests. It may be used by many goroutines at once.
type Verifier struct {
	cfg  Config
	keys keys // of those that have a secret
}

// New returns a Verifier.
func New(cfg Config) *Verifier {
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	if cfg.Secret == nil {
		cfg.Secret = func(string) (string, bool) { return "", false }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.MaxSkew == 0 {
		cfg.MaxSkew = 15 * time.Minute
	}
	return &Verifier{cfg: cfg}
}

// Request is a request whose head was verified.
type Request struct {
	// AccessKey is whose key signed it.
	AccessKey string
	// Presigned tells that the signature is in the query.
	Presigned bool
	// Time is when it was signed, by the client's clock.
	Time time.Time

	http   *http.Request
	signed []string
	hashed string // x-amz-content-sha256, as it was signed
	chain  chain
	// completes tells a CompleteMultipartUpload.
	completes bool
}

// Signed tells whether the signature covers a header, by its name in lower
// case. It covers the whole query, method and path of any request.
func (q *Request) Signed(header string) bool { return slices.Contains(q.signed, header) }

// Verify verifies the head of a request as net/http's server has read it, and
// reads nothing of its body. An error is an [*Error].
func (v *Verifier) Verify(r *http.Request) (*Request, error) {
	target, err := parseTarget(r)
	if err != nil {
		return nil, err
	}
	c, err := readClaim(r, target)
	if err != nil {
		return nil, err
	}
	if err := v.scope(c); err != nil {
		return nil, err
	}
	if err := v.times(c); err != nil {
		return nil, err
	}
	if err := signsAll(r, c); err != nil {
		return nil, err
	}
	if err := once(r.Header); err != nil {
		return nil, err
	}
	secret, known := v.cfg.Secret(c.accessKey)
	var key *derived
	if known = known && secret != ""; known {
		key = v.keys.of(c.accessKey, secret, c.date, v.cfg.Region)
	} else {
		key = v.keys.of("", "no such key, but the same work", c.date, v.cfg.Region)
	}
	dated := c.dated()
	matches := c.matches(r, target, key, dated)
	if !known {
		return nil, refuse(http.StatusForbidden, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
	}
	if !matches {
		return nil, mismatch()
	}
	return &Request{
		AccessKey: c.accessKey, Presigned: c.presigned, Time: c.at,
		http: r, signed: c.signed, hashed: c.hashed,
		chain:     chain{key: key.bytes, scope: dated, previous: []byte(c.signature)},
		completes: r.Method == http.MethodPost && target.has("uploadId"),
	}, nil
}

// scope refuses what was signed for somewhere else.
func (v *Verifier) scope(c *claim) error {
	switch {
	case c.service != service:
		return c.malformed("incorrect service %q. This endpoint belongs to %q.", c.service, service)
	case c.terminator != terminator:
		return c.malformed("incorrect terminal %q. This endpoint uses %q.", c.terminator, terminator)
	case c.region != v.cfg.Region:
		e := c.malformed("the region '%s' is wrong; expecting '%s'", c.region, v.cfg.Region)
		e.Region = v.cfg.Region
		return e
	case c.date != c.stamp[:len("20060102")]:
		return c.malformed("Invalid credential date %q. This date is not the same as X-Amz-Date: %q.", c.date, c.stamp[:len("20060102")])
	}
	return nil
}

// times refuses what was signed too long ago, or not yet.
func (v *Verifier) times(c *claim) error {
	now := v.cfg.Now()
	if c.presigned {
		if c.at.After(now.Add(v.cfg.MaxSkew)) {
			return denied("Request is not valid yet")
		}
		if now.After(c.at.Add(c.expires)) {
			return denied("Request has expired")
		}
		return nil
	}
	if skew := now.Sub(c.at); skew > v.cfg.MaxSkew || skew < -v.cfg.MaxSkew {
		return refuse(http.StatusForbidden, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.")
	}
	return nil
}

// signsAll refuses a request with a header that means something to S3 and could
// have been added by anybody on the way: a presigned PUT would become a copy.
func signsAll(r *http.Request, c *claim) error {
	var missing []string
	if !slices.Contains(c.signed, "host") {
		missing = append(missing, "host")
	}
	const prefix = "x-amz-"
	for name := range r.Header {
		if len(name) < len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
			continue
		}
		if name = plainhead.Lower(name); slices.Contains(c.signed, name) {
			continue
		}
		// With the signature in a header, both are in what it signs anyway.
		if !c.presigned && (name == "x-amz-content-sha256" || name == "x-amz-date") {
			continue
		}
		missing = append(missing, name)
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return denied("There were headers present in the request which were not signed: %s", strings.Join(missing, ", "))
	}
	return nil
}

// once refuses a header that comes in several lines, if it has one value: they sign as
// one line does that has commas, and whoever acts on the first would act on a part of
// what was signed. Metadata and lists are acted on as a whole.
func once(h http.Header) error {
	for name, values := range h {
		if len(values) > 1 && single(plainhead.Lower(name)) {
			return invalidArgument("%s was sent more than once", name)
		}
	}
	return nil
}

// single reports whether a header has one value that matters here, by its name in lower
// case.
func single(name string) bool {
	switch name {
	case "content-disposition", "content-type", "expires", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "range":
		return true
	case "x-amz-object-attributes", "x-amz-optional-object-attributes": // lists, which SDKs send so
		return false
	}
	return strings.HasPrefix(name, "x-amz-") && !strings.HasPrefix(name, "x-amz-meta-")
}

// matches tells whether the signature is that of one of the request's spellings.
func (c *claim) matches(r *http.Request, t *target, key *derived, dated string) bool {
	mac := key.mac()
	defer key.done(mac)
	buf := make([]byte, 0, 1024)
	for s := range spellings {
		if !c.differs(r, t, s) {
			continue
		}
		buf = c.canonical(buf[:0], r, t, s)
		sum := sha256.Sum256(buf)
		buf = append(append(buf[:0], algorithm+"\n"...), dated...)
		var signature [2 * sha256.Size]byte
		mac.Reset()
		mac.Write(hex.AppendEncode(buf, sum[:]))
		hex.Encode(signature[:], mac.Sum(buf[:0]))
		if subtle.ConstantTimeCompare(signature[:], []byte(c.signature)) == 1 {
			return true
		}
	}
	return false
}
