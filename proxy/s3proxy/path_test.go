package s3proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// marks is the number of objects that the fence keeps for itself.
func (e *env) marks(tb testing.TB) (keys []string) {
	tb.Helper()
	for o := range e.bare.ListObjects(tb.Context(), e.bucket, minio.ListObjectsOptions{Prefix: ".fence/", Recursive: true}) {
		if o.Err != nil {
			tb.Fatal(o.Err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// Nobody reaches what is the fence's own, however it is spelled.
func TestFenceIsOutOfReach(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c := e.config()
	c.Domains = []string{"s3.example"}
	p := start(t, c)
	put(t, p.app(t, token(33)), e.bucket, "k", "v")
	marks := e.marks(t)
	if len(marks) == 0 {
		t.Fatal("there is no mark")
	}
	mark := marks[0]
	at := "/" + e.bucket + "/"
	header := map[string]string{"X-Amz-Security-Token": text(t, token(33))}
	for _, key := range []string{
		mark, "/" + mark, "./" + mark, "a/../" + mark, "//" + mark, "a/b/../../" + mark, "%2E" + mark[1:], strings.Replace(mark, "/", "%2F", 1),
		strings.ReplaceAll(mark, "/", "%2f"), strings.Replace(mark, "/", "//", 1), strings.Replace(mark, "/", "/./", 1), "%2e/" + mark, "a/%2e%2e/" + mark,
		"a%2F..%2F" + mark, "%66ence/../" + mark, ".fence/", ".fence/x", ".fence/marks", "%2efence%2fnew", ".%66ence/marks/x",
		"../" + e.bucket + "/" + mark, "..%2F" + e.bucket + "%2F" + mark,
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete} {
			res, body := p.do(t, method, at+key, "stolen", header)
			if res.StatusCode != http.StatusForbidden && res.StatusCode != http.StatusBadRequest {
				t.Errorf("%s %s: %d %s", method, key, res.StatusCode, body)
			}
		}
		for name, request := range map[string]request{
			"copy from": {http.MethodPut, at + "copy", "", with(header, map[string]string{"X-Amz-Copy-Source": strings.TrimPrefix(at, "/") + key})},
			"tagging":   {http.MethodGet, at + key + "?tagging", "", header},
			"upload":    {http.MethodPost, at + key + "?uploads", "", header},
		} {
			if res, body := p.do(t, request.method, request.target, request.body, request.header); res.StatusCode != http.StatusForbidden && res.StatusCode != http.StatusBadRequest {
				t.Errorf("%s %s: %d %s", name, key, res.StatusCode, body)
			}
		}
		r := request{http.MethodGet, "/" + key, "", header}.sign(t, e.bucket+".s3.example", appKey, appSecret)
		r.URL.Host = p.addr
		if res, body := send(t, r); res.StatusCode != http.StatusForbidden && res.StatusCode != http.StatusBadRequest {
			t.Errorf("virtual host, %s: %d %s", key, res.StatusCode, body)
		}
	}
	if got := e.marks(t); len(got) != len(marks) || got[0] != mark {
		t.Errorf("the fence keeps %q now, and kept %q", got, marks)
	}
	put(t, p.app(t, token(33)), e.bucket, "k", "w")
}

// A client sees and reaches its own buckets, in whatever way it asks.
func TestOtherBuckets(t *testing.T) {
	t.Parallel()
	e, theirs := newEnv(t), newEnv(t)
	c := e.config()
	c.Domains = []string{"s3.example", "deep.s3.example"}
	p := start(t, c)
	if _, err := theirs.core.PutObject(t.Context(), theirs.bucket, "k", strings.NewReader("v"), 1, "", "", minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	header := map[string]string{"X-Amz-Security-Token": text(t, token(33))}
	for _, target := range []string{
		"/" + theirs.bucket, "/" + theirs.bucket + "/", "/" + theirs.bucket + "/k", "//" + theirs.bucket + "/k", "/%2F" + theirs.bucket + "/k",
		"/" + e.bucket + "/../" + theirs.bucket + "/k", "/" + e.bucket + "/%2e%2e/" + theirs.bucket + "/k", "/" + e.bucket + "%2F..%2F" + theirs.bucket + "/k",
		"/" + e.bucket + "/..%2F" + theirs.bucket + "%2Fk", "/" + e.bucket + "/a/../../" + theirs.bucket + "/k", "/./" + theirs.bucket + "/k", "/../" + theirs.bucket + "/k",
		"/" + strings.ToUpper(e.bucket) + "/k", "/" + e.bucket + "%00/k", "/" + e.bucket + "/%zz", "/" + e.bucket + "/k%00",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete} {
			if strings.Contains(target, "%zz") {
				continue // no client of net/http sends that
			}
			res, body := p.do(t, method, target, "", header)
			if res.StatusCode/100 != 4 && res.StatusCode != http.StatusNotImplemented {
				t.Errorf("%s %s: %d %s", method, target, res.StatusCode, body)
			}
			// Such a key leads out of its bucket, and is not even shown to the store.
			if out := "/" + e.bucket + "/"; strings.HasPrefix(target, out) && strings.Contains(target, theirs.bucket) && res.StatusCode != http.StatusBadRequest {
				t.Errorf("%s %s: %d %s, want 400", method, target, res.StatusCode, body)
			}
		}
	}
	for host, want := range map[string]int{
		e.bucket + ".s3.example": 200, strings.ToUpper(e.bucket) + ".S3.EXAMPLE:8080": 200, e.bucket + ".deep.s3.example": 200,
		theirs.bucket + ".s3.example": 403, theirs.bucket + "." + e.bucket + ".s3.example": 403, ".s3.example": 200, // that is no bucket: all of them
	} {
		r := request{http.MethodGet, "/", "", header}.sign(t, host, appKey, appSecret)
		r.URL.Host = p.addr
		if res, body := send(t, r); res.StatusCode != want {
			t.Errorf("host %s: %d %s, want %d", host, res.StatusCode, body, want)
		}
	}
	_, err := get(t, p.client(t, otherKey, otherSecret), e.bucket, "k", minio.GetObjectOptions{})
	refused(t, "another client", err, 403, "AccessDenied")
	if v, err := get(t, theirs.core, theirs.bucket, "k", minio.GetObjectOptions{}); err != nil || v != "v" {
		t.Errorf("the other bucket's object is %q, %v", v, err)
	}
	if res, body := p.do(t, http.MethodGet, "/", "", nil); res.StatusCode != http.StatusOK || strings.Count(body, "<Bucket>") != 1 || !strings.Contains(body, "<Name>"+e.bucket+"<") {
		t.Errorf("ListBuckets: %d %s", res.StatusCode, body)
	}
}

// Keys are bytes, and none of them is a path.
func TestAwkwardKeys(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	c := p.app(t, token(33))
	for _, key := range []string{
		"a=b", "a:b", "a b", "a+b", "a%2Fb", "a%b", "a%25b", "ü~", "\u65e5\u672c\u8a9e", "a&b", "a;b", "a,b", "a?b", "a#b", "a'b", `a"b`, "a<b>", "a|b", `a\b`, "a^b", "a`b", "a{b}", "a[b]",
		"a!b", "a@b", "a$b", "a*b", "a(b)", " a", "a ", "a\tb", "a\nb", "a\x01b", "a/b/c", "a.b", "...", "a...b", "-", "~", "_", "%", "%%", "+", "=", "&", "a\u00a0b", "\U0001f600",
		"x-amz-meta-a", "versionId=1", "uploads", "a/.fence/b", ".fenced", ".Fence/a", strings.Repeat("k", 200),
	} {
		value := "of " + key
		if _, err := tryPut(t, c, e.bucket, key, value); err != nil {
			t.Errorf("put %q: %v", key, err)
			continue
		}
		expectValue(t, c, e.bucket, key, value)
		stat, err := c.StatObject(t.Context(), e.bucket, key, minio.StatObjectOptions{})
		if err != nil || stat.Size != int64(len(value)) {
			t.Errorf("head %q: %+v, %v", key, stat, err)
		}
		// It is stored where it would be without us.
		if stat, err := e.bare.StatObject(t.Context(), e.bucket, key, minio.StatObjectOptions{}); err != nil || stat.Size != int64(len(value))+64 {
			t.Errorf("%q at the store: %+v, %v", key, stat, err)
		}
		if err := c.RemoveObject(t.Context(), e.bucket, key, minio.RemoveObjectOptions{}); err != nil {
			t.Errorf("delete %q: %v", key, err)
		}
		// Its tombstone too: not every listing can show it.
		if err := e.bare.RemoveObject(t.Context(), e.bucket, key, minio.RemoveObjectOptions{}); err != nil {
			t.Errorf("remove %q: %v", key, err)
		}
	}
	if res, body := p.do(t, http.MethodPut, "/"+e.bucket+"/"+strings.Repeat("k", 1025), "v", nil); res.StatusCode != http.StatusBadRequest || code(body) != "KeyTooLongError" {
		t.Errorf("a key of 1,025 bytes: %d %s", res.StatusCode, body)
	}
}

// What is not done is refused, and not left out.
func TestNotImplemented(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	put(t, p.app(t, token(33)), e.bucket, "k", "v")
	at := "/" + e.bucket
	for _, target := range []string{
		"PUT /k?acl", "GET /k?acl", "GET /k?torrent", "GET /k?attributes", "PUT /k?retention", "PUT /k?legal-hold", "POST /k?restore", "POST /k?select&select-type=2",
		"PUT /k?renameObject", "GET /k?versionId=null", "DELETE /k?versionId=null", "HEAD /k?versionId=1", "GET /k?unknown", "PUT /k?unknown=1", "DELETE /k?unknown",
		"POST /k", "POST /k?unknown", "PATCH /k", "OPTIONS /k", "TRACE /k", "POST /k?uploads&uploadId=1", "PUT /k?partNumber=1", "PUT /k?uploadId=1", "PUT /k?acl&tagging",
		"GET /?versions", "GET /?lifecycle", "PUT /?lifecycle", "DELETE /?lifecycle", "PUT /?policy", "PUT /?versioning", "PUT /?replication", "DELETE /", "GET /?acl", "GET /?unknown", "GET /?list-type=3",
		"POST /?unknown", "POST /",
	} {
		method, rest, _ := strings.Cut(target, " ")
		res, body := p.do(t, method, at+rest, "", map[string]string{"X-Amz-Security-Token": text(t, token(33))})
		if res.StatusCode != http.StatusNotImplemented || method != http.MethodHead && code(body) != "NotImplemented" {
			t.Errorf("%s: %d %s", target, res.StatusCode, body)
		}
	}
	for name, value := range map[string]string{
		"x-amz-write-offset-bytes": "1", "x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-legal-hold": "ON", "x-amz-acl": "public-read",
		"x-amz-website-redirect-location": "/", "x-amz-server-side-encryption-customer-algorithm": "AES256", "x-amz-grant-read": "id=1",
		"x-amz-server-side-encryption": "aws:kms:dsse", "x-amz-bypass-governance-retention": "true", "x-amz-unknown": "1", "x-amz-mfa": "1 2",
	} {
		res, body := p.do(t, http.MethodPut, at+"/k", "w", map[string]string{"X-Amz-Security-Token": text(t, token(33)), name: value})
		if res.StatusCode != http.StatusNotImplemented || code(body) != "NotImplemented" {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
	res, body := p.do(t, http.MethodPut, at+"/k", "w", map[string]string{"X-Amz-Security-Token": text(t, token(33)), "If-None-Match": `"x"`})
	if res.StatusCode != http.StatusNotImplemented {
		t.Errorf("If-None-Match: %d %s", res.StatusCode, body)
	}
	expectValue(t, p.app(t, token(33)), e.bucket, "k", "v")
}

func TestBuckets(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c := e.config()
	gone := e.bucket + "-gone"
	c.Clients[0].Buckets = append(c.Clients[0].Buckets, gone)
	p := start(t, c)
	app := p.app(t, token(33))
	if there, err := app.BucketExists(t.Context(), e.bucket); err != nil || !there {
		t.Errorf("HeadBucket: %v, %v", there, err)
	}
	if there, err := app.BucketExists(t.Context(), gone); err != nil || there {
		t.Errorf("HeadBucket of one that is not there: %v, %v", there, err)
	}
	for target, want := range map[string]string{
		"/" + e.bucket + "?location":   "<LocationConstraint",
		"/" + e.bucket + "?versioning": "<VersioningConfiguration",
		"/" + e.bucket + "/?location":  "<LocationConstraint",
		"/?prefix=" + e.bucket[:9]:     "<Name>" + e.bucket + "</Name>",
		"/?max-buckets=1":              "<Name>" + e.bucket + "</Name>",
		"/":                            "<BucketRegion>us-east-1</BucketRegion>",
		"/?prefix=" + e.bucket[:4]:     "<Prefix>" + e.bucket[:4] + "</Prefix>",
	} {
		if res, body := p.do(t, http.MethodGet, target, "", nil); res.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", target, res.StatusCode, body)
		}
	}
	if _, body := p.do(t, http.MethodGet, "/?prefix=nothing", "", nil); strings.Contains(body, "<Bucket>") {
		t.Errorf("ListBuckets: %s", body)
	}
	for target, want := range map[string]string{"/" + gone + "?location": "NoSuchBucket", "/" + gone + "?versioning": "NoSuchBucket", "/" + gone + "/k": "NoSuchBucket"} {
		if res, body := p.do(t, http.MethodGet, target, "", nil); res.StatusCode != http.StatusNotFound || code(body) != want {
			t.Errorf("%s: %d %s", target, res.StatusCode, body)
		}
	}
	_, err := tryPut(t, app, gone, "k", "v")
	refused(t, "put into no bucket", err, 404, "NoSuchBucket")
	err = app.MakeBucket(t.Context(), e.bucket, minio.MakeBucketOptions{})
	refused(t, "CreateBucket of one that is there", err, 409, "BucketAlreadyOwnedByYou")
	err = app.MakeBucket(t.Context(), gone, minio.MakeBucketOptions{})
	refused(t, "CreateBucket", err, 501, "NotImplemented")
	err = app.MakeBucket(t.Context(), "theirs", minio.MakeBucketOptions{})
	refused(t, "CreateBucket of another's", err, 403, "AccessDenied")
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(t)
	for name, c := range map[string]struct {
		key, secret string
		status      int
		code        string
	}{
		"wrong secret":    {appKey, "wrong", 403, "SignatureDoesNotMatch"},
		"unknown key":     {"nobody", appSecret, 403, "InvalidAccessKeyId"},
		"the store's own": {e.store.AccessKey, e.store.SecretKey, 403, "InvalidAccessKeyId"},
		"read-only":       {readerKey, readerSecret, 403, "AccessDenied"},
	} {
		_, err := tryPut(t, p.client(t, c.key, c.secret, token(33)), e.bucket, "k", "v")
		refused(t, name, err, c.status, c.code)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.addr+"/"+e.bucket+"/k", strings.NewReader("v"))
		if err != nil {
			t.Fatal(err)
		}
		if res, body := send(t, r); res.StatusCode != http.StatusForbidden || code(body) != "AccessDenied" {
			t.Errorf("%s, not signed: %d %s", method, res.StatusCode, body)
		}
	}
	_, err := get(t, e.core, e.bucket, "k", minio.GetObjectOptions{})
	refused(t, "at the store", err, 404, "NoSuchKey")
	log := p.log.String()
	for _, secret := range []string{appSecret, readerSecret, e.store.SecretKey, "Signature=", "Credential="} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}
