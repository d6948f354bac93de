// Command minio does what users of minio-go do with it, and says what came of
// each act.
//
//	minio       does all of it
//	minio late  is overtaken in the middle of an upload
//	minio not   tries to write, each to a key of its own
//	minio once  writes one object
//
// VARIANT=trailers has it send checksums in trailers; VARIANT=virtual has it
// call buckets by host names below s3.test, all of which are ENDPOINT.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/tags"
)

const mib = 1 << 20

type user struct {
	*minio.Client
	core    minio.Core
	bucket  string
	browser *http.Client // fetches what is presigned
}

func main() {
	u, err := connect(os.Getenv("VARIANT"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	ctx := context.Background()
	switch strings.Join(os.Args[1:], " ") {
	case "":
		u.objects(ctx)
		u.conditions(ctx)
		u.multipart(ctx)
		u.rest(ctx)
	case "late":
		u.late(ctx)
	case "not":
		u.mayNot(ctx)
	case "once":
		u.put(ctx, "once", []byte("1"), minio.PutObjectOptions{})
	}
}

func connect(variant string) (*user, error) {
	at, err := url.Parse(os.Getenv("ENDPOINT"))
	if err != nil {
		return nil, err
	}
	o := &minio.Options{
		Creds:  credentials.NewEnvAWS(),
		Secure: at.Scheme == "https", Region: os.Getenv("AWS_REGION"), BucketLookup: minio.BucketLookupPath,
		TrailingHeaders: variant == "trailers",
	}
	endpoint, browser := at.Host, http.DefaultClient
	if variant == "virtual" {
		// What a wildcard in the DNS does.
		endpoint, o.BucketLookup = "s3.test:"+at.Port(), minio.BucketLookupDNS
		o.Transport = &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at.Host)
		}}
		browser = &http.Client{Transport: o.Transport}
	}
	c, err := minio.New(endpoint, o)
	if err != nil {
		return nil, err
	}
	return &user{c, minio.Core{Client: c}, os.Getenv("BUCKET"), browser}, nil
}

func (u *user) objects(ctx context.Context) {
	body := data(100_000, 1)
	u.put(ctx, "one", body, minio.PutObjectOptions{ContentType: "text/x-one", UserMetadata: map[string]string{"colour": "red"}, CacheControl: "no-cache"})
	u.get(ctx, "one", minio.GetObjectOptions{})
	for _, r := range [][2]int64{{0, 0}, {60, 70}, {99_990, 0}, {0, -5}, {200_000, 0}} {
		o := minio.GetObjectOptions{}
		if err := o.SetRange(r[0], r[1]); err != nil {
			say(err, "range")
			continue
		}
		u.get(ctx, "one", o)
	}
	u.get(ctx, "missing", minio.GetObjectOptions{})
	info, err := u.StatObject(ctx, u.bucket, "one", minio.StatObjectOptions{})
	say(err, "stat", info.Size, info.ContentType, info.UserMetadata, info.Metadata.Get("Cache-Control"))
	_, err = u.StatObject(ctx, u.bucket, "missing", minio.StatObjectOptions{})
	say(err, "stat missing")
	for _, key := range []string{"a b+c/ü~=:@&$,;'(1)!*.txt", "a%2Fb/%20", "emoji/😀", `<&>"'`} {
		u.put(ctx, key, []byte(key), minio.PutObjectOptions{})
		u.get(ctx, key, minio.GetObjectOptions{})
	}
	u.put(ctx, "empty", nil, minio.PutObjectOptions{})
	u.get(ctx, "empty", minio.GetObjectOptions{})
	u.put(ctx, "md5", body, minio.PutObjectOptions{SendContentMd5: true})
	u.put(ctx, "unsigned", body, minio.PutObjectOptions{DisableContentSha256: true})
	for _, sum := range []minio.ChecksumType{minio.ChecksumCRC32, minio.ChecksumCRC32C, minio.ChecksumCRC64NVME, minio.ChecksumSHA1, minio.ChecksumSHA256} {
		u.put(ctx, "sum/"+sum.String(), body, minio.PutObjectOptions{Checksum: sum})
		u.get(ctx, "sum/"+sum.String(), minio.GetObjectOptions{Checksum: true})
	}
	ok, err := u.BucketExists(ctx, u.bucket)
	say(err, "bucket exists", ok)
	where, err := u.GetBucketLocation(ctx, u.bucket)
	say(err, "location", where)
}

func (u *user) conditions(ctx context.Context) {
	create, update := minio.PutObjectOptions{}, minio.PutObjectOptions{}
	create.SetMatchETagExcept("*")
	first := u.put(ctx, "cond", []byte("first"), create)
	u.put(ctx, "cond", []byte("second"), create)
	update.SetMatchETag(first.ETag)
	u.put(ctx, "cond", []byte("third"), update)
	u.put(ctx, "cond", []byte("fourth"), update)
	same := minio.GetObjectOptions{}
	if err := same.SetMatchETag(first.ETag); err != nil {
		say(err, "match")
	}
	u.get(ctx, "cond", same)
	other := minio.GetObjectOptions{}
	if err := other.SetMatchETagExcept(first.ETag); err != nil {
		say(err, "match")
	}
	u.get(ctx, "cond", other)
}

func (u *user) multipart(ctx context.Context) {
	large := data(12*mib+345, 3)
	o := minio.PutObjectOptions{PartSize: 5 * mib, ContentType: "text/x-multi", UserMetadata: map[string]string{"m": "1"}}
	u.put(ctx, "multi/put", large, o)
	u.get(ctx, "multi/put", minio.GetObjectOptions{})
	info, err := u.PutObject(ctx, u.bucket, "multi/stream", struct{ io.Reader }{bytes.NewReader(large)}, -1, o)
	say(err, "put a stream", info.Size, strings.Contains(info.ETag, "-3"))
	u.get(ctx, "multi/stream", minio.GetObjectOptions{PartNumber: 2})
	o.NumThreads, o.ConcurrentStreamParts = 3, true
	info, err = u.PutObject(ctx, u.bucket, "multi/parallel", struct{ io.Reader }{bytes.NewReader(large)}, int64(len(large)), o)
	say(err, "put in parallel", info.Size)
	u.get(ctx, "multi/parallel", minio.GetObjectOptions{})

	id, err := u.core.NewMultipartUpload(ctx, u.bucket, "multi/hand", minio.PutObjectOptions{})
	say(err, "new upload")
	var parts []minio.CompletePart
	for i, size := range []int64{5 * mib, 77} {
		p, err := u.core.PutObjectPart(ctx, u.bucket, "multi/hand", id, i+1, bytes.NewReader(large[:size]), size, minio.PutObjectPartOptions{})
		say(err, "part", p.PartNumber, p.Size)
		parts = append(parts, minio.CompletePart{PartNumber: i + 1, ETag: p.ETag})
	}
	list, err := u.core.ListObjectParts(ctx, u.bucket, "multi/hand", id, 0, 10)
	say(err, "parts", len(list.ObjectParts), list.IsTruncated)
	for _, p := range list.ObjectParts {
		say(nil, "part of the list", p.PartNumber, p.Size, strings.Trim(p.ETag, `"`) == parts[p.PartNumber-1].ETag)
	}
	for up := range u.ListIncompleteUploads(ctx, u.bucket, "multi/", true) {
		say(up.Err, "incomplete", up.Key)
	}
	_, err = u.core.CompleteMultipartUpload(ctx, u.bucket, "multi/hand", id, parts, minio.PutObjectOptions{})
	say(err, "complete")
	u.get(ctx, "multi/hand", minio.GetObjectOptions{})
	u.get(ctx, "multi/aborted", minio.GetObjectOptions{})
	composed, err := u.ComposeObject(ctx, minio.CopyDestOptions{Bucket: u.bucket, Object: "multi/composed"},
		minio.CopySrcOptions{Bucket: u.bucket, Object: "multi/put"}, minio.CopySrcOptions{Bucket: u.bucket, Object: "one"})
	say(err, "compose", composed.Size)
	u.get(ctx, "multi/composed", minio.GetObjectOptions{})
}

func (u *user) rest(ctx context.Context) {
	src := minio.CopySrcOptions{Bucket: u.bucket, Object: "one"}
	copied, err := u.CopyObject(ctx, minio.CopyDestOptions{Bucket: u.bucket, Object: "copied"}, src)
	say(err, "copy", copied.Key)
	u.get(ctx, "copied", minio.GetObjectOptions{})
	_, err = u.CopyObject(ctx, minio.CopyDestOptions{Bucket: u.bucket, Object: "replaced", ReplaceMetadata: true, UserMetadata: map[string]string{"new": "1"}}, src)
	say(err, "copy with other metadata")
	list, err := tags.MapToObjectTags(map[string]string{"a": "b c"})
	say(err, "tags")
	say(u.PutObjectTagging(ctx, u.bucket, "copied", list, minio.PutObjectTaggingOptions{}), "tag")
	list, err = u.GetObjectTagging(ctx, u.bucket, "copied", minio.GetObjectTaggingOptions{})
	say(err, "tagged", list)
	for _, v1 := range []bool{false, true} {
		for o := range u.ListObjects(ctx, u.bucket, minio.ListObjectsOptions{Recursive: true, MaxKeys: 5, UseV1: v1}) {
			say(o.Err, "listed", o.Key, o.Size)
		}
		for o := range u.ListObjects(ctx, u.bucket, minio.ListObjectsOptions{MaxKeys: 2, UseV1: v1}) {
			say(o.Err, "listed", o.Key, o.Size)
		}
	}
	put, err := u.PresignedPutObject(ctx, u.bucket, "signed", time.Minute)
	say(err, "presign")
	u.fetch(http.MethodPut, put, "signed by minio-go")
	get, err := u.PresignedGetObject(ctx, u.bucket, "signed", time.Minute, url.Values{"response-content-type": {"text/z"}})
	say(err, "presign")
	u.fetch(http.MethodGet, get, "")
	u.fetch(http.MethodDelete, get, "")
	say(u.RemoveObject(ctx, u.bucket, "signed", minio.RemoveObjectOptions{}), "remove")
	say(u.RemoveObject(ctx, u.bucket, "never", minio.RemoveObjectOptions{}), "remove nothing")
	doomed := make(chan minio.ObjectInfo, 3)
	for _, key := range []string{"copied", "empty", `<&>"'`} {
		doomed <- minio.ObjectInfo{Key: key}
	}
	close(doomed)
	for e := range u.RemoveObjects(ctx, u.bucket, doomed, minio.RemoveObjectsOptions{}) {
		say(e.Err, "remove many")
	}
	for o := range u.ListObjects(ctx, u.bucket, minio.ListObjectsOptions{}) {
		say(o.Err, "left", o.Key)
	}
}

func (u *user) put(ctx context.Context, key string, body []byte, o minio.PutObjectOptions) minio.UploadInfo {
	info, err := u.PutObject(ctx, u.bucket, key, bytes.NewReader(body), int64(len(body)), o)
	say(err, "put", key, info.Size, info.ChecksumCRC32, info.ChecksumCRC32C, info.ChecksumCRC64NVME, info.ChecksumSHA1, info.ChecksumSHA256)
	return info
}

func (u *user) get(ctx context.Context, key string, o minio.GetObjectOptions) {
	body, info, _, err := u.core.GetObject(ctx, u.bucket, key, o)
	if err != nil {
		say(err, "get", key)
		return
	}
	defer body.Close()
	all, err := io.ReadAll(body)
	say(err, "get", key, digest(all), info.Size, info.ContentType, info.UserMetadata)
}

// fetch is what a browser does with a presigned URL.
func (u *user) fetch(method string, at *url.URL, body string) {
	req, err := http.NewRequestWithContext(context.Background(), method, at.String(), strings.NewReader(body))
	if err != nil {
		say(err, "request")
		return
	}
	res, err := u.browser.Do(req)
	if err != nil {
		say(err, method)
		return
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if res.StatusCode >= http.StatusBadRequest {
		_, code, _ := strings.Cut(string(all), "<Code>")
		code, _, _ = strings.Cut(code, "</Code>")
		say(err, "presigned", method, res.StatusCode, code)
		return
	}
	say(err, "presigned", method, res.StatusCode, digest(all), res.Header.Get("Content-Type"))
}

// say says what came of an act.
func say(err error, what ...any) {
	if err != nil {
		e := minio.ToErrorResponse(err)
		what = append(what, "failed:", e.StatusCode, e.Code, err)
	}
	fmt.Println(what...)
}

func digest(b []byte) string { return fmt.Sprintf("%d bytes %.8x", len(b), sha256.Sum256(b)) }

// data are the same bytes every time.
func data(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}
