package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

func (u *user) late(ctx context.Context) {
	id, err := u.core.NewMultipartUpload(ctx, u.bucket, "late/multi", minio.PutObjectOptions{})
	say(err, "new upload")
	part, err := u.core.PutObjectPart(ctx, u.bucket, "late/multi", id, 1, strings.NewReader("part"), 4, minio.PutObjectPartOptions{})
	say(err, "part")
	u.put(ctx, "late/put", []byte("before"), minio.PutObjectOptions{})
	u.put(ctx, "late/delete", []byte("before"), minio.PutObjectOptions{})
	fmt.Println("claim?")
	_, _ = os.Stdin.Read(make([]byte, 1))
	u.put(ctx, "late/put", []byte("after"), minio.PutObjectOptions{})
	say(u.RemoveObject(ctx, u.bucket, "late/delete", minio.RemoveObjectOptions{}), "remove")
	_, err = u.core.PutObjectPart(ctx, u.bucket, "late/multi", id, 2, strings.NewReader("part"), 4, minio.PutObjectPartOptions{})
	say(err, "part")
	_, err = u.core.CompleteMultipartUpload(ctx, u.bucket, "late/multi", id, []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}, minio.PutObjectOptions{})
	say(err, "complete")
}

func (u *user) mayNot(ctx context.Context) {
	large := data(12*mib, 3)
	u.put(ctx, "not/put", []byte("1"), minio.PutObjectOptions{})
	u.put(ctx, "not/large", large, minio.PutObjectOptions{DisableMultipart: true})
	u.put(ctx, "not/multi", large, minio.PutObjectOptions{PartSize: 5 * mib})
	u.put(ctx, "not/sum", large[:mib], minio.PutObjectOptions{Checksum: minio.ChecksumSHA256})
	u.put(ctx, "seed/a", []byte("1"), minio.PutObjectOptions{})
	_, err := u.CopyObject(ctx, minio.CopyDestOptions{Bucket: u.bucket, Object: "not/copy"}, minio.CopySrcOptions{Bucket: u.bucket, Object: "seed/a"})
	say(err, "copy")
	say(u.RemoveObject(ctx, u.bucket, "seed/b", minio.RemoveObjectOptions{}), "remove")
	doomed := make(chan minio.ObjectInfo, 2)
	doomed <- minio.ObjectInfo{Key: "seed/a"}
	doomed <- minio.ObjectInfo{Key: "seed/c"}
	close(doomed)
	for e := range u.RemoveObjects(ctx, u.bucket, doomed, minio.RemoveObjectsOptions{}) {
		say(e.Err, "remove many", e.ObjectName)
	}
	put, err := u.PresignedPutObject(ctx, u.bucket, "not/signed", time.Minute)
	say(err, "presign")
	u.fetch(http.MethodPut, put, "signed by minio-go")
}
