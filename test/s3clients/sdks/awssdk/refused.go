package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func (u *user) late(ctx context.Context) {
	key := aws.String("late/multi")
	made, err := u.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: u.bucket, Key: key})
	if !say(err, "create upload") {
		return
	}
	part, err := u.UploadPart(ctx, &s3.UploadPartInput{Bucket: u.bucket, Key: key, UploadId: made.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("part")})
	if !say(err, "part") {
		return
	}
	u.put(ctx, "late/put", &s3.PutObjectInput{Body: strings.NewReader("before")})
	u.put(ctx, "late/delete", &s3.PutObjectInput{Body: strings.NewReader("before")})
	fmt.Println("claim?")
	_, _ = os.Stdin.Read(make([]byte, 1))
	u.put(ctx, "late/put", &s3.PutObjectInput{Body: strings.NewReader("after")})
	_, err = u.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: u.bucket, Key: aws.String("late/delete")})
	say(err, "delete")
	_, err = u.UploadPart(ctx, &s3.UploadPartInput{Bucket: u.bucket, Key: key, UploadId: made.UploadId, PartNumber: aws.Int32(2), Body: strings.NewReader("part")})
	say(err, "part")
	_, err = u.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: u.bucket, Key: key, UploadId: made.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{ETag: part.ETag, PartNumber: aws.Int32(1)}}},
	})
	say(err, "complete")
}

func (u *user) mayNot(ctx context.Context) {
	large := data(12*mib, 3)
	u.put(ctx, "not/put", &s3.PutObjectInput{Body: strings.NewReader("1")})
	u.put(ctx, "not/large", &s3.PutObjectInput{Body: bytes.NewReader(large)})
	u.put(ctx, "seed/a", &s3.PutObjectInput{Body: strings.NewReader("1")})
	_, err := manager.NewUploader(u.Client).Upload(ctx, &s3.PutObjectInput{Bucket: u.bucket, Key: aws.String("not/multi"), Body: bytes.NewReader(large)})
	say(err, "upload")
	_, err = u.CopyObject(ctx, &s3.CopyObjectInput{Bucket: u.bucket, Key: aws.String("not/copy"), CopySource: aws.String(*u.bucket + "/seed/a")})
	say(err, "copy")
	_, err = u.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: u.bucket, Key: aws.String("seed/b")})
	say(err, "delete")
	u.deleteMany(ctx, "seed/a", "seed/c")
	put, err := s3.NewPresignClient(u.Client).PresignPutObject(ctx, &s3.PutObjectInput{Bucket: u.bucket, Key: aws.String("not/signed")})
	if say(err, "presign") {
		fetch(ctx, put.Method, put.URL, "signed")
	}
}
