package clitest

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// Pail is a bucket, and what a shell that works on it has in its environment.
type Pail struct {
	T      *testing.T
	Server *testenv.S3Server
	Bucket string
	Link   *testenv.S3Link // between the two
	Env    map[string]string
}

// NewPail makes a bucket, behind a link.
func NewPail(t *testing.T) *Pail {
	t.Helper()
	s := testenv.S3(t)
	b := &Pail{T: t, Server: s, Bucket: s.Bucket(t), Link: s.Link(t)}
	b.Env = map[string]string{
		"AWS_ACCESS_KEY_ID": s.AccessKey, "AWS_SECRET_ACCESS_KEY": s.SecretKey, "AWS_REGION": s.Region,
		"AWS_ENDPOINT_URL": "http://" + b.Link.Endpoint(),
	}
	return b
}

// Under is the same with a token for orders in the environment.
func (b *Pail) Under(number int) *Pail {
	return b.With(fmt.Sprintf("ft1:x:%d:h%d:i:orders", number, number))
}

// With is the same with a token in the environment; none if it is "".
func (b *Pail) With(token string) *Pail {
	c := *b
	c.Env = maps.Clone(b.Env)
	c.Env["FENCE_TOKEN"] = token
	return &c
}

// Run runs a command of s3 on it.
func (b *Pail) Run(args ...string) Outcome { return b.Feed("", args...) }

// Feed is run with standard input.
func (b *Pail) Feed(in string, args ...string) Outcome {
	b.T.Helper()
	return Invocation{Args: append([]string{"s3"}, append(args, "--bucket", b.Bucket)...), Env: b.Env, In: in}.Run(b.T.Context())
}

// Put writes an object under the token in the environment.
func (b *Pail) Put(key, value string) {
	b.T.Helper()
	b.Feed(value, "put", "-", key).Want(b.T, cli.ExitOK)
}

// PutBare writes an object past the fence.
func (b *Pail) PutBare(key, value string) {
	b.T.Helper()
	opts := minio.PutObjectOptions{ContentType: "text/plain", UserMetadata: map[string]string{"Origin": "before"}}
	_, err := b.Server.Client(b.T).PutObject(b.T.Context(), b.Bucket, key, strings.NewReader(value), int64(len(value)), opts)
	Must(b.T, err)
}

// Stored is what the server has.
func (b *Pail) Stored(key string) string {
	b.T.Helper()
	object, err := b.Server.Client(b.T).GetObject(b.T.Context(), b.Bucket, key, minio.GetObjectOptions{})
	Must(b.T, err)
	defer object.Close()
	var data bytes.Buffer
	_, err = data.ReadFrom(object)
	Must(b.T, err)
	return data.String()
}

// Holds wants an object to hold something.
func (b *Pail) Holds(key, want string) {
	b.T.Helper()
	if o := b.Run("get", key, "-", "--no-token").Want(b.T, cli.ExitOK); o.Out != want {
		b.T.Errorf("%s holds %q, want %q", key, o.Out, want)
	}
}
