// Command awssdk does what users of aws-sdk-go-v2 do with it, and says what came
// of each act.
//
//	awssdk       does all of it
//	awssdk late  is overtaken in the middle of an upload
//	awssdk not   tries to write, each to a key of its own
//	awssdk once  writes one object
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

const mib = 1 << 20

type user struct {
	*s3.Client
	bucket *string
}

func main() {
	ctx := context.Background()
	c, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	u := &user{bucket: aws.String(os.Getenv("BUCKET"))}
	u.Client = s3.NewFromConfig(c, func(o *s3.Options) {
		o.BaseEndpoint, o.UsePathStyle = aws.String(os.Getenv("ENDPOINT")), true
		o.DisableLogOutputChecksumValidationSkipped = true
	})
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
		u.put(ctx, "once", &s3.PutObjectInput{Body: strings.NewReader("1")})
	}
}

func (u *user) objects(ctx context.Context) {
	body := data(100_000, 1)
	u.put(ctx, "one", &s3.PutObjectInput{Body: bytes.NewReader(body), ContentType: aws.String("text/x-one"), Metadata: map[string]string{"colour": "red"}})
	u.get(ctx, "one", &s3.GetObjectInput{})
	for _, r := range []string{"bytes=60-70", "bytes=99990-", "bytes=-5", "bytes=100000-"} {
		u.get(ctx, "one", &s3.GetObjectInput{Range: aws.String(r)})
	}
	u.get(ctx, "missing", &s3.GetObjectInput{})
	head, err := u.HeadObject(ctx, &s3.HeadObjectInput{Bucket: u.bucket, Key: aws.String("one")})
	if say(err, "head") {
		say(nil, *head.ContentLength, *head.ContentType, head.Metadata)
	}
	_, err = u.HeadObject(ctx, &s3.HeadObjectInput{Bucket: u.bucket, Key: aws.String("missing")})
	say(err, "head missing")
	for _, key := range []string{"a b+c/ü~=:@&$,;'(1)!*.txt", "a%2Fb/%20", "emoji/😀", `<&>"'`} {
		u.put(ctx, key, &s3.PutObjectInput{Body: strings.NewReader(key)})
		u.get(ctx, key, &s3.GetObjectInput{})
	}
	u.put(ctx, "empty", &s3.PutObjectInput{})
	u.get(ctx, "empty", &s3.GetObjectInput{})
	for _, sum := range types.ChecksumAlgorithm("").Values() {
		if strings.HasPrefix(string(sum), "CRC") || sum == types.ChecksumAlgorithmSha1 || sum == types.ChecksumAlgorithmSha256 {
			key := "sum/" + string(sum)
			u.put(ctx, key, &s3.PutObjectInput{Body: bytes.NewReader(body), ChecksumAlgorithm: sum})
			u.get(ctx, key, &s3.GetObjectInput{ChecksumMode: types.ChecksumModeEnabled})
		}
	}
	_, err = u.PutObject(ctx, &s3.PutObjectInput{Bucket: u.bucket, Key: aws.String("sum/wrong"), Body: bytes.NewReader(body), ChecksumCRC32: aws.String("AAAAAA==")},
		func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	say(err, "put with a wrong checksum")
	u.get(ctx, "sum/wrong", &s3.GetObjectInput{})
}

func (u *user) conditions(ctx context.Context) {
	create := func(text string) *s3.PutObjectInput {
		return &s3.PutObjectInput{Body: strings.NewReader(text), IfNoneMatch: aws.String("*")}
	}
	first := u.put(ctx, "cond", create("first"))
	u.put(ctx, "cond", create("second"))
	u.put(ctx, "cond", &s3.PutObjectInput{Body: strings.NewReader("third"), IfMatch: first})
	u.put(ctx, "cond", &s3.PutObjectInput{Body: strings.NewReader("fourth"), IfMatch: first})
	u.get(ctx, "cond", &s3.GetObjectInput{IfMatch: first})
	u.get(ctx, "cond", &s3.GetObjectInput{IfNoneMatch: first})
	_, err := u.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: u.bucket, Key: aws.String("cond"), IfMatch: first})
	say(err, "delete if match")
}

func (u *user) multipart(ctx context.Context) {
	large := data(12*mib+345, 3)
	up := manager.NewUploader(u.Client, func(m *manager.Uploader) { m.PartSize = 5 * mib })
	done, err := up.Upload(ctx, &s3.PutObjectInput{
		Bucket: u.bucket, Key: aws.String("multi/upload"), Body: bytes.NewReader(large),
		ContentType: aws.String("text/x-multi"), Metadata: map[string]string{"m": "1"},
	})
	if say(err, "upload") {
		say(nil, strings.HasSuffix(*done.ETag, `-3"`), len(done.CompletedParts))
	}
	_, err = up.Upload(ctx, &s3.PutObjectInput{Bucket: u.bucket, Key: aws.String("multi/stream"), Body: struct{ io.Reader }{bytes.NewReader(large)}, ChecksumAlgorithm: types.ChecksumAlgorithmSha256})
	say(err, "upload a stream")
	_, err = up.Upload(ctx, &s3.PutObjectInput{Bucket: u.bucket, Key: aws.String("multi/upload"), Body: bytes.NewReader(large), IfNoneMatch: aws.String("*")})
	say(err, "upload if none match")
	_, err = up.Upload(ctx, &s3.PutObjectInput{Bucket: u.bucket, Key: aws.String("multi/small"), Body: struct{ io.Reader }{strings.NewReader("small")}})
	say(err, "upload something small")
	for _, key := range []string{"multi/upload", "multi/stream", "multi/small"} {
		into := manager.NewWriteAtBuffer(nil)
		_, err = manager.NewDownloader(u.Client, func(m *manager.Downloader) { m.PartSize = 5 * mib }).Download(ctx, into, &s3.GetObjectInput{Bucket: u.bucket, Key: &key})
		say(err, "download", key, digest(into.Bytes()))
	}
	u.get(ctx, "multi/upload", &s3.GetObjectInput{PartNumber: aws.Int32(3)})

	key := aws.String("multi/hand")
	made, err := u.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: u.bucket, Key: key})
	if !say(err, "create upload") {
		return
	}
	var parts []types.CompletedPart
	for n, size := range []int{5 * mib, 1000} {
		part, err := u.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: u.bucket, Key: key, UploadId: made.UploadId, PartNumber: aws.Int32(int32(n + 1)), Body: bytes.NewReader(large[:size]),
		})
		if say(err, "part") {
			parts = append(parts, types.CompletedPart{ETag: part.ETag, PartNumber: aws.Int32(int32(n + 1))})
		}
	}
	list, err := u.ListParts(ctx, &s3.ListPartsInput{Bucket: u.bucket, Key: key, UploadId: made.UploadId})
	if say(err, "parts") {
		for i, p := range list.Parts {
			say(nil, *p.PartNumber, *p.Size, beforeDash(*p.ETag) == beforeDash(*parts[i].ETag))
		}
	}
	_, err = u.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: u.bucket, Key: key, UploadId: made.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}})
	say(err, "complete")
	u.get(ctx, "multi/hand", &s3.GetObjectInput{})
}

// beforeDash is what the ETags of a part have in common: behind it the proxy tells a
// checksum, if it knows one.
func beforeDash(etag string) string {
	etag, _, _ = strings.Cut(strings.Trim(etag, `"`), "-")
	return etag
}

func (u *user) rest(ctx context.Context) {
	copied, err := u.CopyObject(ctx, &s3.CopyObjectInput{Bucket: u.bucket, Key: aws.String("copied"), CopySource: aws.String(*u.bucket + "/one")})
	if say(err, "copy") {
		say(nil, copied.CopyObjectResult.ETag != nil)
	}
	u.get(ctx, "copied", &s3.GetObjectInput{})
	pages := s3.NewListObjectsV2Paginator(u, &s3.ListObjectsV2Input{Bucket: u.bucket, MaxKeys: aws.Int32(4)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if !say(err, "page") {
			break
		}
		for _, o := range page.Contents {
			say(nil, *o.Key, *o.Size)
		}
	}
	signer := s3.NewPresignClient(u.Client)
	put, err := signer.PresignPutObject(ctx, &s3.PutObjectInput{Bucket: u.bucket, Key: aws.String("signed")})
	if say(err, "presign") {
		fetch(ctx, put.Method, put.URL, "signed")
	}
	get, err := signer.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: u.bucket, Key: aws.String("signed")})
	if say(err, "presign") {
		fetch(ctx, get.Method, get.URL, "")
		fetch(ctx, http.MethodDelete, get.URL, "")
	}
	_, err = u.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{Bucket: u.bucket, Key: aws.String("one"), Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}})
	say(err, "tag")
	tagged, err := u.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: u.bucket, Key: aws.String("one")})
	if say(err, "tags") {
		for _, t := range tagged.TagSet {
			say(nil, *t.Key, *t.Value)
		}
	}
	_, err = u.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: u.bucket, Key: aws.String("copied")})
	say(err, "delete")
	u.deleteMany(ctx, "one", "never", `<&>"'`)
	u.get(ctx, "one", &s3.GetObjectInput{})
}

func (u *user) deleteMany(ctx context.Context, keys ...string) {
	d := &types.Delete{}
	for _, key := range keys {
		d.Objects = append(d.Objects, types.ObjectIdentifier{Key: &key})
	}
	done, err := u.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: u.bucket, Delete: d})
	if say(err, "delete many") {
		for _, o := range done.Deleted {
			say(nil, "deleted", *o.Key)
		}
		for _, e := range done.Errors {
			say(nil, "not deleted", *e.Key, *e.Code)
		}
	}
}

func (u *user) put(ctx context.Context, key string, in *s3.PutObjectInput) *string {
	in.Bucket, in.Key = u.bucket, &key
	out, err := u.PutObject(ctx, in)
	if !say(err, "put", key) {
		return nil
	}
	say(nil, aws.ToString(out.ChecksumCRC32), aws.ToString(out.ChecksumCRC32C), aws.ToString(out.ChecksumCRC64NVME), aws.ToString(out.ChecksumSHA1), aws.ToString(out.ChecksumSHA256))
	return out.ETag
}

func (u *user) get(ctx context.Context, key string, in *s3.GetObjectInput) {
	in.Bucket, in.Key = u.bucket, &key
	out, err := u.GetObject(ctx, in)
	if !say(err, "get", key) {
		return
	}
	defer out.Body.Close()
	all, err := io.ReadAll(out.Body)
	say(err, digest(all), aws.ToInt64(out.ContentLength), aws.ToString(out.ContentRange), aws.ToString(out.ContentType), out.Metadata)
}

// fetch is what a browser does with a presigned URL.
func fetch(ctx context.Context, method, url, body string) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		say(err, "request")
		return
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		say(err, method)
		return
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	_, code, _ := strings.Cut(string(all), "<Code>")
	code, _, _ = strings.Cut(code, "</Code>")
	say(err, "presigned", method, res.StatusCode, res.ContentLength > 0 || code != "", code)
}

// say says what came of an act, and whether anything did.
func say(err error, what ...any) bool {
	var (
		api  smithy.APIError
		http interface{ HTTPStatusCode() int }
		last *retry.MaxAttemptsError
	)
	switch {
	case err == nil:
	case errors.As(err, &api) && errors.As(err, &http):
		what = append(what, "failed:", http.HTTPStatusCode(), api.ErrorCode(), api.ErrorMessage(), "tried until the last:", errors.As(err, &last))
	default:
		what = append(what, "failed:", err)
	}
	fmt.Println(what...)
	return err == nil
}

func digest(b []byte) string { return fmt.Sprintf("%d bytes %.8x", len(b), sha256.Sum256(b)) }

// data are the same bytes every time.
func data(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}
