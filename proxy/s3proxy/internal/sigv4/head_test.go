package sigv4

import (
	"strings"
	"testing"
	"time"
)

const (
	getHead = "GET /bucket/key HTTP/1.1\nHost: s3.example\nx-amz-content-sha256: " + unsignedSum
	getBare = "GET /bucket/key HTTP/1.1\nHost: s3.example"
)

func head(text string) (signedText string) {
	return scribe{}.header(text, "host", "x-amz-content-sha256", "x-amz-date")
}

// TestRefusals: who is refused, and with what code. All of these differ in one
// thing from what is admitted.
func TestRefusals(t *testing.T) {
	t.Parallel()
	good := head(getHead)
	_, authorization, _ := strings.Cut(good, "Authorization")
	authorization = "Authorization" + authorization
	for name, test := range map[string]struct{ head, want string }{
		"good":           {good, ""},
		"anonymous":      {getHead, "AccessDenied"},
		"another method": {change(good, "GET", "PUT"), "SignatureDoesNotMatch"},
		"another key":    {change(good, "/key", "/kez"), "SignatureDoesNotMatch"},
		"another host":   {change(good, "s3.example", "s3.example:80"), "SignatureDoesNotMatch"},
		"a parameter":    {change(good, "/key", "/key?acl"), "SignatureDoesNotMatch"},
		"another hash":   {change(good, unsignedSum, emptySum), "SignatureDoesNotMatch"},
		"unknown key":    {scribe{key: "AKIANOBODY"}.header(getHead, "host", "x-amz-content-sha256", "x-amz-date"), "InvalidAccessKeyId"},
		"wrong secret":   {scribe{secret: "another"}.header(getHead, "host", "x-amz-content-sha256", "x-amz-date"), "SignatureDoesNotMatch"},
		"region": {
			scribe{scope: "20130524/eu-west-1/s3/aws4_request"}.header(getHead, "host", "x-amz-content-sha256", "x-amz-date"),
			"AuthorizationHeaderMalformed",
		},
		"service": {
			scribe{scope: "20130524/us-east-1/sts/aws4_request"}.header(getHead, "host", "x-amz-content-sha256", "x-amz-date"),
			"AuthorizationHeaderMalformed",
		},
		"terminator": {
			scribe{scope: "20130524/us-east-1/s3/aws3_request"}.header(getHead, "host", "x-amz-content-sha256", "x-amz-date"),
			"AuthorizationHeaderMalformed",
		},
		"scope of yesterday": {
			scribe{scope: "20130523/us-east-1/s3/aws4_request"}.header(getHead, "host", "x-amz-content-sha256", "x-amz-date"),
			"AuthorizationHeaderMalformed",
		},
		"host not signed":            {scribe{}.header(getHead, "x-amz-content-sha256", "x-amz-date"), "AccessDenied"},
		"hash in the signature only": {scribe{hash: unsignedSum}.header(getHead, "host"), ""},
		"x-amz-* not signed":         {change(good, "Host", "x-amz-copy-source: b/k\nHost"), "AccessDenied"},
		"X-AMZ-* not signed":         {change(good, "Host", "X-AMZ-Meta-A: b\nHost"), "AccessDenied"},
		"no hash":                    {scribe{hash: unsignedSum}.header(getBare, "host", "x-amz-date"), "InvalidRequest"},
		"hash twice":                 {change(good, "Host", "x-amz-content-sha256: "+unsignedSum+"\nHost"), "InvalidArgument"},
		"not a hash":                 {change(good, unsignedSum, "unsigned"), "InvalidArgument"},
		"x-amz-* twice, signed as one": {
			change(scribe{}.header(change(getHead, "Host", "x-amz-copy-source: b/a,b\nHost"), "host", "x-amz-content-sha256", "x-amz-copy-source", "x-amz-date"), "b/a,b", "b/a\nx-amz-copy-source: b"),
			"InvalidArgument",
		},
		"a condition twice":              {scribe{}.header(change(getHead, "Host", "If-Match: a\nif-match: b\nHost"), "host", "if-match", "x-amz-content-sha256", "x-amz-date"), "InvalidArgument"},
		"a condition twice, not signed":  {change(good, "Host", "If-Match: a\nif-match: b\nHost"), "InvalidArgument"},
		"metadata twice, signed as one":  {change(scribe{}.header(change(getHead, "Host", "x-amz-meta-a: b,c\nHost"), "host", "x-amz-content-sha256", "x-amz-date", "x-amz-meta-a"), "b,c", "b\nx-amz-meta-a: c"), ""},
		"a list in two lines, signed so": {scribe{}.header(change(getHead, "Host", "Cache-Control: a\nCache-Control: b\nHost"), "cache-control", "host", "x-amz-content-sha256", "x-amz-date"), ""},
		"one of Amazon's in two":         {scribe{}.header(change(getHead, "Host", "X-Amz-Object-Attributes: ETag\nX-Amz-Object-Attributes: ObjectSize\nHost"), "host", "x-amz-content-sha256", "x-amz-date", "x-amz-object-attributes"), ""},
		"date twice":                     {change(good, "Host", "x-amz-date: 20130524T000000Z\nHost"), "AccessDenied"},
		"no date":                        {change(good, "x-amz-date: 20130524T000000Z\n", ""), "AccessDenied"},
		"date with fractions":            {change(good, "T000000Z", "T000000.5Z"), "AccessDenied"},
		"Authorization twice":            {good + "Authorization: Bearer x", "InvalidArgument"},
		"same Authorization twice":       {good + authorization, "InvalidArgument"},
		"Bearer":                         {getHead + "\nAuthorization: Bearer x", "InvalidArgument"},
		"Signature Version 2":            {getHead + "\nAuthorization: AWS " + exampleKey + ":frJIUN8DYpKDtOLCwo//yllqDzg=", "InvalidRequest"},
		"Signature Version 4A":           {change(good, "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"), "NotImplemented"},
		"chunks of 4A":                   {change(good, unsignedSum, "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"), "NotImplemented"},
		"another hash function":          {change(good, "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA512"), "InvalidArgument"},
		"algorithm alone":                {getHead + "\nAuthorization: AWS4-HMAC-SHA256", "AuthorizationHeaderMalformed"},
		"no credential":                  {change(good, "Credential=", "Credentials="), "AuthorizationHeaderMalformed"},
		"credential twice":               {change(good, "SignedHeaders=", "Credential="), "AuthorizationHeaderMalformed"},
		"four parts":                     {change(good, "SignedHeaders=", "Extra=x, SignedHeaders="), "AuthorizationHeaderMalformed"},
		"short credential":               {change(good, exampleKey+"/", ""), "AuthorizationHeaderMalformed"},
		"empty access key":               {change(good, exampleKey, ""), "AuthorizationHeaderMalformed"},
		"header signed twice":            {change(good, "=host;", "=host;host;"), "AuthorizationHeaderMalformed"},
		"header in upper case":           {change(good, "=host;", "=Host;"), "AuthorizationHeaderMalformed"},
		"no name of a header":            {change(good, "=host;", "=host;;"), "AuthorizationHeaderMalformed"},
		"short signature":                {strings.TrimSpace(good)[:len(good)-2], "SignatureDoesNotMatch"},
		"signature in upper case":        {good[:strings.LastIndex(good, "=")] + strings.ToUpper(good[strings.LastIndex(good, "="):]), "SignatureDoesNotMatch"},
		"a query that Go would cut":      {change(good, "/key", "/key?a;b"), "InvalidURI"},
		"more parameters than Go":        {change(good, "/key", "/key?"+strings.Repeat("a&", 10000)+"b"), "InvalidURI"},
		"a query with half a byte":       {change(good, "/key", "/key?a=%zz"), "InvalidURI"},
		"an access key with slashes":     {scribe{key: "a/b/c"}.header(getHead, "host", "x-amz-content-sha256", "x-amz-date"), "InvalidAccessKeyId"},
		"signed in another order":        {scribe{}.header(getHead, "x-amz-date", "host", "x-amz-content-sha256"), ""},
		"signed what is not there":       {scribe{}.header(getHead, "content-type", "host", "x-amz-content-sha256", "x-amz-date"), ""},
		"content-type, signed and added": {change(scribe{}.header(getHead, "content-type", "host", "x-amz-content-sha256", "x-amz-date"), "Host", "Content-Type: a\nHost"), "SignatureDoesNotMatch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusal(t, test.head, test.want)
		})
	}
}

// TestPresignedRefusals is the same for what is signed in the query.
func TestPresignedRefusals(t *testing.T) {
	t.Parallel()
	good, presigned := head(getHead), scribe{}.query(getBare, "host")
	_, authorization, _ := strings.Cut(good, "Authorization")
	authorization = "Authorization" + authorization
	for name, test := range map[string]struct{ head, want string }{
		"good":               {presigned, ""},
		"other key":          {change(presigned, "/key", "/kez"), "SignatureDoesNotMatch"},
		"longer":             {change(presigned, "Expires=600", "Expires=601"), "SignatureDoesNotMatch"},
		"another parameter":  {change(presigned, "?", "?versionId=x&"), "SignatureDoesNotMatch"},
		"for a week and 1 s": {change(presigned, "Expires=600", "Expires=604801"), "AuthorizationQueryParametersError"},
		"for no time":        {change(presigned, "Expires=600", "Expires=soon"), "AuthorizationQueryParametersError"},
		"for less than none": {change(presigned, "Expires=600", "Expires=-1"), "AuthorizationQueryParametersError"},
		"for so long":        {change(presigned, "Expires=600", "Expires=99999999999999999999"), "AuthorizationQueryParametersError"},
		"no expires":         {change(presigned, "X-Amz-Expires=600&", ""), "AuthorizationQueryParametersError"},
		"date":               {change(presigned, "20130524T000000Z", "20130524"), "AuthorizationQueryParametersError"},
		"twice":              {change(presigned, "X-Amz-Expires=600&", "X-Amz-Expires=600&X-Amz-Expires=600&"), "AuthorizationQueryParametersError"},
		"two signatures": {
			change(presigned, "X-Amz-Signature=", "X-Amz-Signature="+strings.Repeat("0", 64)+"&X-Amz%2DSignature="),
			"AuthorizationQueryParametersError",
		},
		"signature alone":               {change(good, "/key", "/key?X-Amz-Signature="+strings.Repeat("0", 64)), "InvalidArgument"},
		"4A":                            {change(presigned, "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"), "NotImplemented"},
		"other algorithm":               {change(presigned, "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"), "AuthorizationQueryParametersError"},
		"presigned and AWS in a header": {presigned + "\n" + authorization, "InvalidArgument"},
		"presigned and V2 in a header":  {presigned + "\nAuthorization: AWS x:y", "InvalidArgument"},
		"presigned and Bearer":          {presigned + "\nAuthorization: Bearer x", ""},
		"presigned and two other ones":  {presigned + "\nAuthorization: Bearer x\nAuthorization: Basic eDp5", ""},
		"hash not signed":               {presigned + "\nx-amz-content-sha256: " + unsignedSum, "AccessDenied"},
		"date not signed":               {presigned + "\nx-amz-date: 20130524T000000Z", "AccessDenied"},
		"hash in the query":             {scribe{hash: emptySum}.query("GET /b/k?X-Amz-Content-Sha256="+emptySum+" HTTP/1.1\nHost: h", "host"), ""},
		"two hashes":                    {change(presigned, "?", "?X-Amz-Content-Sha256="+emptySum+"&X-Amz-Content-Sha256="+unsignedSum+"&"), "InvalidArgument"},
		"presigned by Signature V2":     {"GET /b/k?AWSAccessKeyId=x&Signature=y&Expires=1 HTTP/1.1\nHost: h", "InvalidRequest"},
		"line end in a name":            {change(presigned, "SignedHeaders=host", "SignedHeaders=host%0Ax"), "AuthorizationQueryParametersError"},
		"region":                        {scribe{scope: "20130524/eu-west-1/s3/aws4_request"}.query(getBare, "host"), "AuthorizationQueryParametersError"},
		"unknown key":                   {scribe{key: "nobody"}.query(getBare, "host"), "InvalidAccessKeyId"},
		"host not signed":               {scribe{}.query(getBare+"\nrange: bytes=0-1", "range"), "AccessDenied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusal(t, test.head, test.want)
		})
	}
}

// change replaces a text that is there.
func change(text, old, replacement string) string {
	if !strings.Contains(text, old) {
		panic(old + " is not in " + text)
	}
	return strings.Replace(text, old, replacement, 1)
}

func refusal(t *testing.T, head, want string) {
	t.Helper()
	err := headError(t, head)
	if code(err) != want {
		t.Fatalf("%v, want %q", err, want)
	}
	if err != nil && strings.Contains(err.Error(), exampleSecret) {
		t.Fatal("the secret is in the error")
	}
}

// TestTimes: when a request is too old, or comes before its time.
func TestTimes(t *testing.T) {
	t.Parallel()
	good, presigned := head(getHead), scribe{}.query(getBare, "host")
	for _, test := range []struct {
		head  string
		after time.Duration
		want  string
	}{
		{good, 15 * time.Minute, ""},
		{good, -15 * time.Minute, ""},
		{good, 15*time.Minute + time.Second, "RequestTimeTooSkewed"},
		{good, -15*time.Minute - time.Second, "RequestTimeTooSkewed"},
		{good, 240 * time.Hour, "RequestTimeTooSkewed"},
		{presigned, 10 * time.Minute, ""},
		{presigned, 10*time.Minute + time.Second, "AccessDenied"},
		{presigned, -15 * time.Minute, ""},
		{presigned, -15*time.Minute - time.Second, "AccessDenied"},
	} {
		_, err := at(exampleTime().Add(test.after)).Verify(request(t, test.head, strings.NewReader("")))
		if code(err) != test.want {
			t.Errorf("after %v: %v, want %q", test.after, err, test.want)
		}
		if test.want == "AccessDenied" && test.after > 0 && !strings.Contains(err.Error(), "Request has expired") {
			t.Errorf("%v", err)
		}
	}
}

// TestRegion: a client that signs for another region is told which one to sign
// for, and what no key of ours signs is refused by a Verifier of none.
func TestRegion(t *testing.T) {
	t.Parallel()
	v := New(Config{Region: "eu-north-1", Now: exampleTime})
	_, err := v.Verify(request(t, head(getHead), strings.NewReader("")))
	if e, ok := err.(*Error); !ok || e.Region != "eu-north-1" || !strings.Contains(e.Message, "expecting 'eu-north-1'") { //nolint:errorlint // not wrapped
		t.Fatalf("%v", err)
	}
	s := scribe{scope: "20130524/eu-north-1/s3/aws4_request"}
	_, err = v.Verify(request(t, s.header(getHead, "host", "x-amz-content-sha256", "x-amz-date"), strings.NewReader("")))
	if code(err) != "InvalidAccessKeyId" {
		t.Fatalf("%v", err)
	}
	v = New(Config{Now: exampleTime, Secret: func(string) (string, bool) { return "", true }})
	s = scribe{secret: "no such key, but the same work"}
	_, err = v.Verify(request(t, s.header(getHead, "host", "x-amz-content-sha256", "x-amz-date"), strings.NewReader("")))
	if code(err) != "InvalidAccessKeyId" {
		t.Fatalf("an empty secret opens: %v", err)
	}
}

// TestRequest: what is known of a request that was verified.
func TestRequest(t *testing.T) {
	t.Parallel()
	q, err := at(exampleTime().Add(time.Minute)).Verify(request(t, head(getHead+"\nx-other: y"), strings.NewReader("")))
	if err != nil {
		t.Fatal(err)
	}
	if q.AccessKey != exampleKey || q.Presigned || !q.Time.Equal(exampleTime()) {
		t.Errorf("%+v", q)
	}
	if !q.Signed("host") || !q.Signed("x-amz-date") || q.Signed("x-other") || q.Signed("") {
		t.Error("not what is signed")
	}
	q, err = at(exampleTime()).Verify(request(t, scribe{}.query(getBare, "host"), strings.NewReader("")))
	if err != nil || !q.Presigned || !q.Signed("host") || q.Signed("x-amz-security-token") {
		t.Errorf("%+v %v", q, err)
	}
}
