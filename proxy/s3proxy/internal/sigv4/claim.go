package sigv4

import (
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// claim is what a request says of its signature.
type claim struct {
	presigned                                    bool
	accessKey, date, region, service, terminator string
	signed                                       []string // in the client's order
	signature                                    string
	stamp                                        string
	at                                           time.Time
	expires                                      time.Duration // of a presigned one
	hashed                                       string
}

func (c *claim) scope() string {
	return c.date + "/" + c.region + "/" + c.service + "/" + c.terminator
}

// dated is what follows the algorithm in a text that is signed: when, and for where.
func (c *claim) dated() string {
	return c.stamp + "\n" + c.scope() + "\n"
}

func (c *claim) malformed(format string, args ...any) *Error {
	if c.presigned {
		return refuse(http.StatusBadRequest, "AuthorizationQueryParametersError", "Error parsing the X-Amz-Credential parameter; "+format, args...)
	}
	return refuse(http.StatusBadRequest, "AuthorizationHeaderMalformed", "The authorization header is malformed; "+format, args...)
}

// readClaim reads the claim of a request from where it is.
func readClaim(r *http.Request, t *target) (*claim, error) {
	header := r.Header["Authorization"]
	if t.has("X-Amz-Algorithm") || t.has("X-Amz-Credential") || t.has("X-Amz-Signature") {
		// An Authorization of another kind is for somebody in between.
		if slices.ContainsFunc(header, func(text string) bool { return strings.HasPrefix(text, "AWS") }) {
			return nil, invalidArgument("Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, " +
				"Signature query string parameter or the Authorization header should be specified")
		}
		return readQuery(r, t)
	}
	if len(header) == 0 && t.has("AWSAccessKeyId") && t.has("Signature") {
		return nil, version2()
	}
	switch {
	case len(header) == 0:
		return nil, denied("Access Denied")
	case len(header) > 1:
		return nil, invalidArgument("Only one Authorization header allowed")
	}
	scheme, rest, _ := strings.Cut(header[0], " ")
	switch {
	case scheme == algorithm:
		return readHeader(r, rest)
	case strings.HasPrefix(scheme, "AWS4-ECDSA-"):
		return nil, version4A(scheme)
	case scheme == "AWS":
		return nil, version2()
	}
	return nil, invalidArgument("Unsupported Authorization Type")
}

func version2() *Error {
	return invalidRequest("The authorization mechanism you have provided is not supported. Please use " + algorithm +
		": signature version 2 is what some clients presign with unless they are told otherwise (boto3: Config(signature_version=\"s3v4\"), " +
		"aws cli: aws configure set s3.signature_version s3v4, s3cmd: its signurl always does).")
}

func version4A(scheme string) *Error {
	return unsupported("%s (Signature Version 4A) is not supported. Please use %s.", scheme, algorithm)
}

// readHeader reads what follows the algorithm in an Authorization header.
func readHeader(r *http.Request, text string) (*claim, error) {
	c := &claim{}
	names := [...]string{"Credential", "SignedHeaders", "Signature"}
	var values [len(names)]string
	count := 0
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(strings.Trim(part, " \t"), "=")
		if count++; !found || count > len(names) {
			return nil, c.malformed("it is not a Credential, SignedHeaders and Signature, each of them once.")
		}
		if i := slices.Index(names[:], name); i >= 0 {
			values[i] = value
		}
	}
	for i, name := range names { // as many as there may be: then each was there once
		if values[i] == "" {
			return nil, c.malformed("the %s is missing.", name)
		}
	}
	if err := c.set(values[0], values[1], values[2]); err != nil {
		return nil, err
	}
	var err error
	if c.at, c.stamp, err = dateOf(r.Header); err != nil {
		return nil, denied("AWS authentication requires a valid Date or x-amz-date header")
	}
	switch hashed := r.Header["X-Amz-Content-Sha256"]; len(hashed) {
	case 0:
		return nil, invalidRequest("Missing required header for this request: x-amz-content-sha256")
	case 1:
		c.hashed = hashed[0]
	default:
		return nil, invalidArgument("x-amz-content-sha256 was sent more than once")
	}
	return c, checkHashed(c.hashed)
}

// readQuery reads the claim of a presigned request.
func readQuery(r *http.Request, t *target) (*claim, error) {
	c := &claim{presigned: true}
	bad := func(format string, args ...any) error {
		return refuse(http.StatusBadRequest, "AuthorizationQueryParametersError", format, args...)
	}
	values := map[string]string{}
	for _, name := range []string{"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature", "X-Amz-Date", "X-Amz-SignedHeaders", "X-Amz-Expires"} {
		found := t.values(name)
		if len(found) != 1 || found[0] == "" {
			return nil, bad("Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, " +
				"X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters, each of them once.")
		}
		values[name] = found[0]
	}
	switch scheme := values["X-Amz-Algorithm"]; {
	case strings.HasPrefix(scheme, "AWS4-ECDSA-"):
		return nil, version4A(scheme)
	case scheme != algorithm:
		return nil, bad("X-Amz-Algorithm only supports %q", algorithm)
	}
	if err := c.set(values["X-Amz-Credential"], values["X-Amz-SignedHeaders"], values["X-Amz-Signature"]); err != nil {
		return nil, err
	}
	var err error
	c.stamp = values["X-Amz-Date"]
	if c.at, err = parseStamp(c.stamp); err != nil {
		return nil, bad("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
	}
	seconds, err := strconv.ParseInt(values["X-Amz-Expires"], 10, 64)
	switch {
	case err != nil:
		return nil, bad("X-Amz-Expires should be a number")
	case seconds < 0:
		return nil, bad("X-Amz-Expires must be non-negative")
	case seconds > int64(maxExpires/time.Second):
		return nil, bad("X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds")
	}
	c.expires = time.Duration(seconds) * time.Second
	// A hash in either place pins the payload.
	pinned := slices.Compact(append(t.values("X-Amz-Content-Sha256"), r.Header["X-Amz-Content-Sha256"]...))
	switch len(pinned) {
	case 0:
		c.hashed = unsignedPayload
	case 1:
		c.hashed = pinned[0]
	default:
		return nil, invalidArgument("x-amz-content-sha256 was sent with different values")
	}
	return c, checkHashed(c.hashed)
}

// set takes the three parts that a header and a query have in common.
func (c *claim) set(credential, signed, signature string) error {
	// An access key may have a slash in it: the scope is what comes last.
	parts := strings.Split(credential, "/")
	if len(parts) < 5 {
		return c.malformed("the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".")
	}
	last := parts[len(parts)-4:]
	c.accessKey = strings.Join(parts[:len(parts)-4], "/")
	c.date, c.region, c.service, c.terminator = last[0], last[1], last[2], last[3]
	if c.accessKey == "" {
		return c.malformed("the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".")
	}
	c.signed = strings.Split(signed, ";")
	for i, name := range c.signed {
		if !isName(name) || slices.Contains(c.signed[:i], name) {
			return c.malformed("the SignedHeaders are not names in lower case, each of them once.")
		}
	}
	if len(signature) != 2*32 || strings.Trim(signature, "0123456789abcdef") != "" {
		return mismatch()
	}
	c.signature = signature
	return nil
}

var errNoDate = errors.New("no date, or not one")

// dateOf is the date of a request with its signature in a header, and its stamp.
func dateOf(h http.Header) (at time.Time, stamp string, err error) {
	dates := h["X-Amz-Date"]
	alone := len(dates) == 0
	if alone {
		dates = h["Date"]
	}
	if len(dates) != 1 {
		return at, "", errNoDate
	}
	if at, err = parseStamp(dates[0]); err == nil || !alone {
		return at, dates[0], err
	}
	at, err = http.ParseTime(dates[0])
	at = at.UTC()
	return at, at.Format(stampForm), err
}

func parseStamp(text string) (time.Time, error) {
	if len(text) != len(stampForm) { // time.Parse would take fractions
		return time.Time{}, errNoDate
	}
	return time.Parse(stampForm, text)
}

// isName tells whether a text is the name of a header in lower case.
func isName(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || 'A' <= c && c <= 'Z' || separators[c] {
			return false
		}
	}
	return text != ""
}

// separators are what stands between names.
var separators = func() (set [0x7f]bool) { //nolint:gochecknoglobals // a constant
	for _, c := range "()<>@,;:\\\"/[]?={}" {
		set[c] = true
	}
	return set
}()

func isHash(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == 32
}
