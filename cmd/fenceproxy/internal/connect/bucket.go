package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// BucketHelp is what all commands that talk to a store say of it.
const BucketHelp = `Keys and region come from where the aws command has them in the environment:
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN (unless that is a
fencing token), AWS_REGION or AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 or
AWS_ENDPOINT_URL, AWS_CA_BUNDLE.`

// BucketFlags adds to a command what names a bucket.
func BucketFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.String("endpoint", "", "URL of the store, https://host:port (default: the environment's AWS_ENDPOINT_URL, or Amazon's)")
	flags.String("bucket", "", "name of the bucket")
	flags.String("region", "", "region of the bucket (default: the environment's AWS_REGION, or us-east-1)")
	flags.String("cacert", "", "file with the authorities that may have signed the store's certificate (default: the environment's AWS_CA_BUNDLE, or the system's)")
	flags.Bool("virtual-host", false, "address the bucket as https://bucket.host (default: for Amazon, Google and Aliyun)")
}

// Bucket is a bucket that a command line names, and how to reach it.
type Bucket struct {
	Name      string
	Endpoint  *url.URL
	Client    *minio.Client
	Transport *http.Transport
}

// Close closes the connections that idle.
func (b *Bucket) Close() { b.Transport.CloseIdleConnections() }

// BucketOf reads the flags of BucketFlags and the environment. It asks nobody. The
// client tries nothing twice.
func BucketOf(cmd *cobra.Command, env func(string) string) (*Bucket, error) {
	name, _ := cmd.Flags().GetString("bucket") // the flag is there, like the others
	if name == "" {
		return nil, cli.Usage(cmd, "no bucket: give --bucket NAME")
	}
	b, err := OpenBucket(name, env, func(setting string) (text, source string) {
		return cmd.Flags().Lookup(setting).Value.String(), "--" + setting
	})
	if err != nil {
		return nil, cli.Usage(cmd, "%v", err)
	}
	return b, nil
}

// OpenBucket makes the client of a bucket. What says, for
// each setting of BucketFlags by its name, leaves open, the environment says. The
// error is about the settings.
func OpenBucket(bucket string, env func(string) string, says func(setting string) (text, source string)) (*Bucket, error) {
	given := func(setting string, variables ...string) (text, source string) {
		if text, source = says(setting); text != "" {
			return text, source
		}
		for _, name := range variables {
			if text = env(name); text != "" {
				return text, name
			}
		}
		return "", ""
	}
	b := &Bucket{Name: bucket}
	text, source := given("endpoint", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
	if text == "" {
		text = "https://s3.amazonaws.com"
	}
	endpoint, err := url.Parse(text)
	if err != nil || endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.Host == "" || endpoint.User != nil || strings.Trim(endpoint.Path, "/") != "" {
		return nil, fmt.Errorf("%s is not the URL of a store: it must read https://host:port, or http:// without TLS", source)
	}
	if strings.HasPrefix(source, "AWS_") && isFenced(env) {
		return nil, fmt.Errorf("the environment is that of exec --s3, for clients of the proxy at %s, and this command works on the store itself: run it without --s3", endpoint)
	}
	b.Endpoint = endpoint
	key, secret := env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY")
	if key == "" || secret == "" {
		return nil, errors.New("no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	region, _ := given("region", "AWS_REGION", "AWS_DEFAULT_REGION")
	if region == "" {
		region = "us-east-1"
	}
	if b.Transport, err = minio.DefaultTransport(endpoint.Scheme == "https"); err != nil {
		return nil, fmt.Errorf("make transport: %w", err)
	}
	if path, source := given("cacert", "AWS_CA_BUNDLE"); path != "" && endpoint.Scheme == "https" {
		if b.Transport.TLSClientConfig, err = trusting(path); err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
	}
	lookup := minio.BucketLookupAuto
	if virtual, _ := says("virtual-host"); virtual == "true" {
		lookup = minio.BucketLookupDNS
	}
	b.Client, err = minio.New(endpoint.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(key, secret, SessionToken(env)),
		Secure: endpoint.Scheme == "https", Transport: s3store.Transport(b.Transport), Region: region, BucketLookup: lookup, MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("%s is not the URL of a store: %w", source, err)
	}
	return b, nil
}

// SessionToken is that of the user's own credentials, "" if the environment
// has a fencing token there, which is for proxies.
func SessionToken(env func(string) string) string {
	if isFenced(env) {
		return ""
	}
	return env(carrier.EnvAWSSessionToken)
}

// isFenced reports whether the environment has a fencing token where S3
// clients have their session token, as under exec --s3.
func isFenced(env func(string) string) bool {
	_, err := guard.ParseList(env(carrier.EnvAWSSessionToken))
	return err == nil
}

func trusting(path string) (*tls.Config, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("there is no certificate in %s", path)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}
