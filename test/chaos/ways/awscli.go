package ways

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

// awsClient is the aws command line, a process for each act.
type awsClient struct {
	program string
	bucket  Bucket
	env     []string
	dir     string // for bodies
}

func dialAWS(a Access) func(Bucket, guard.Token) (client, error) {
	return func(b Bucket, token guard.Token) (client, error) {
		dir, err := os.MkdirTemp("", "chaos-aws")
		if err != nil {
			return nil, err
		}
		env, err := carrier.SetEnv([]string{
			"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1",
			"AWS_ACCESS_KEY_ID=" + b.AccessKey, "AWS_SECRET_ACCESS_KEY=" + b.SecretKey, "AWS_DEFAULT_REGION=" + b.Region, "AWS_CA_BUNDLE=" + b.CA,
		}, token)
		return &awsClient{program: a.AWS, bucket: b, env: env, dir: dir}, err
	}
}

func (c *awsClient) close() { os.RemoveAll(c.dir) }

func (c *awsClient) get(ctx context.Context, key string) ([]byte, string, error) {
	path := filepath.Join(c.dir, "got")
	etag, err := c.run(ctx, "get-object", key, path)
	if err != nil {
		return nil, "", err
	}
	body, err := os.ReadFile(path)
	return body, etag, err
}

func (c *awsClient) put(ctx context.Context, key string, body []byte, etag string) (string, error) {
	path := filepath.Join(c.dir, "put")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		return "", guard.WithOutcome(err, guard.NotApplied)
	}
	condition := []string{"--if-match", etag}
	if etag == "" {
		condition = []string{"--if-none-match", "*"}
	}
	return c.run(ctx, "put-object", key, append(condition, "--body", path)...)
}

// SupportsConditions reports whether an aws command knows --if-match of put-object,
// which it does since the end of 2024.
func SupportsConditions(program string) bool {
	return exec.Command(program, "s3api", "put-object", "--bucket", "b", "--key", "k", "--if-match", "e", "--generate-cli-skeleton").Run() == nil
}

// codeInText finds the code in what the command says: "An error occurred (CODE)
// when calling the PutObject operation: …".
var codeInText = regexp.MustCompile(`An error occurred \(([A-Za-z0-9]+)\)`)

func (c *awsClient) run(ctx context.Context, what, key string, args ...string) (etag string, err error) {
	scheme := "http://"
	if c.bucket.CA != "" {
		scheme = "https://"
	}
	all := append([]string{"--endpoint-url", scheme + c.bucket.Endpoint, "s3api", what, "--bucket", c.bucket.Bucket, "--key", key}, args...)
	cmd := exec.CommandContext(ctx, c.program, all...)
	cmd.Env = c.env
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		err = fmt.Errorf("aws: %w: %s", err, bytes.TrimSpace(said.Bytes()))
		code := ""
		if found := codeInText.FindSubmatch(said.Bytes()); found != nil {
			code = string(found[1])
		}
		return "", c.judge(code, err)
	}
	var answer struct {
		ETag string `json:"ETag"` //nolint:tagliatelle // S3's own spelling
	}
	err = json.Unmarshal(out.Bytes(), &answer)
	return answer.ETag, err
}

// judge tells from the code alone what became of the act: the command does not
// show the status.
func (c *awsClient) judge(code string, err error) error {
	switch code {
	case "NoSuchKey":
		return errors.Join(errAbsent, guard.WithOutcome(err, guard.NotApplied))
	case "PreconditionFailed", "ConditionalRequestConflict":
		return answeredS3(412, code, err)
	}
	return answeredS3(0, code, err)
}
