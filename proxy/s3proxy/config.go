package s3proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy/gateway"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

const (
	defaultRegion      = "us-east-1"
	defaultMaxBodyTime = 60 * time.Second
	// A store may have to put thousands of parts together before it says anything.
	defaultResponseTimeout = 2 * time.Minute
	defaultHeaderTimeout   = 10 * time.Second
	defaultIdleTimeout     = 2 * time.Minute
	allBuckets             = "*"
)

// Config is how clients reach one store. The zero value of each field but
// Upstream and Clients is its default.
type Config struct {
	// Upstream is the store.
	Upstream Upstream
	// TLS is that with clients: the Certificates, or GetCertificate, that they are
	// shown, and with ClientCAs and ClientAuth what they must show. MinVersion
	// defaults to TLS 1.2. Defaults to none.
	TLS *tls.Config
	// Clients are who may come. At least one.
	Clients []Client
	// Untokened is what requests without a token may do. Defaults to ReadOnly.
	Untokened Policy
	// Resources binds keys to resources, by their prefixes; the longest counts.
	// Keys without one belong to the resource whose token first wrote them; but
	// with Untokened Allow they are not fenced. Defaults to none.
	Resources []Resource
	// Legacy admits objects that were there before the fence, see
	// s3store.Config. Defaults to false.
	Legacy bool
	// MaxBodyTime is how long a body, of a request or an answer, may make no
	// progress before its connection is cut. Defaults to 60 s.
	MaxBodyTime time.Duration
	// Domains are those in front of which the host may name the bucket, as in
	// bucket.domain; in lower case, without a port. Defaults to none: the path
	// names it.
	Domains []string
	// MaxConnections is how many clients' connections there may be at a time; on
	// others requests get 503 SlowDown, or they are closed. Defaults to 0, no limit.
	MaxConnections int
	// HeaderTimeout is how long TLS and the header of a request may take. Reload
	// does not change it. Defaults to 10 s.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection may wait for its next request. Reload
	// does not change it. Defaults to 2 min.
	IdleTimeout time.Duration
	// Logger gets one line for each refusal and each failure of the store; never
	// a secret, a signature, a query, or a token's holder. Defaults to none.
	Logger *slog.Logger
	// Metrics are counted in. Defaults to none. Servers may share them.
	Metrics *Metrics
}

// Upstream is the store, and who the proxy is there.
type Upstream struct {
	// Endpoint is http://host:port or https://host:port, without a path.
	Endpoint string
	// Region is what requests are signed for, those of clients too. Defaults to
	// us-east-1.
	Region string
	// AccessKey and SecretKey are the proxy's own. From SecretKey also comes what
	// authenticates the ids of uploads.
	AccessKey, SecretKey string
	// TLS has the RootCAs that may have signed the store's certificate. Defaults
	// to the authorities of the system.
	TLS *tls.Config
	// ResponseTimeout is how long the store may take to begin its answer when it has
	// the whole request, and how long it may take nothing of a body, or give nothing.
	// Of a write it is then looked up what became of it. Defaults to 2 minutes.
	ResponseTimeout time.Duration
}

// Client is somebody who may come.
type Client struct {
	// AccessKey is its name, and SecretKey what it signs with.
	AccessKey, SecretKey string
	// Buckets are those that it may use, or "*" alone for all. At least one.
	Buckets []string
	// ReadOnly refuses its writes, whatever its token. Defaults to false.
	ReadOnly bool
}

// Resource says which resource keys belong to.
type Resource struct {
	// Prefix is bucket/ and what the keys in it begin with, if anything.
	Prefix string
	// Resource is the name of it.
	Resource string
}

// Policy is what requests without a token may do.
type Policy uint8

const (
	// ReadOnly: they may read; writes get 403 FenceTokenMissing.
	ReadOnly Policy = iota
	// Deny: they get 403 FenceTokenMissing.
	Deny
	// Allow: they do as they like with keys that no resource covers, which are
	// not fenced, and for which there are no tokens. Needs Resources.
	Allow
)

func policies() []string { return []string{ReadOnly: "read-only", Deny: "deny", Allow: "allow"} }

// String is the policy's name: read-only, deny or allow.
func (p Policy) String() string {
	if int(p) < len(policies()) {
		return policies()[p]
	}
	return fmt.Sprintf("policy %d", uint8(p))
}

// MarshalText gives the policy's name.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText takes a policy's name.
func (p *Policy) UnmarshalText(text []byte) error {
	i := slices.Index(policies(), string(text))
	if i < 0 {
		return fmt.Errorf("unknown policy %q: must be one of %q", text, policies())
	}
	*p = Policy(i) //nolint:gosec // an index of policies
	return nil
}

// complete returns the config with its defaults, or says what is wrong with it.
func (c Config) complete() (Config, error) {
	setDefault(&c.Upstream.Region, defaultRegion)
	setDefault(&c.Upstream.ResponseTimeout, defaultResponseTimeout)
	setDefault(&c.MaxBodyTime, defaultMaxBodyTime)
	setDefault(&c.HeaderTimeout, defaultHeaderTimeout)
	setDefault(&c.IdleTimeout, defaultIdleTimeout)
	setDefault(&c.Logger, slog.New(slog.DiscardHandler))
	if c.Metrics == nil {
		c.Metrics = newMetrics()
	}
	if err := errors.Join(c.validate(), c.Upstream.validate(), validateClients(c.Clients), c.validateResources()); err != nil {
		return c, fmt.Errorf("s3proxy: %w", err)
	}
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) validate() error {
	switch {
	case int(c.Untokened) >= len(policies()):
		return fmt.Errorf("unknown %s", c.Untokened)
	case c.Untokened == Allow && len(c.Resources) == 0:
		return errors.New("untokened allow needs resources: what none covers is not fenced, and nothing would be")
	case c.Upstream.ResponseTimeout < 0:
		return errors.New("upstream ResponseTimeout must not be negative")
	case c.MaxBodyTime < 0, c.HeaderTimeout < 0, c.IdleTimeout < 0, c.MaxConnections < 0:
		return errors.New("MaxBodyTime, HeaderTimeout, IdleTimeout and MaxConnections must not be negative")
	case c.TLS != nil && len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil && c.TLS.GetConfigForClient == nil:
		return errors.New("TLS needs a certificate")
	}
	for _, d := range c.Domains {
		if d == "" || d != strings.ToLower(d) || strings.HasPrefix(d, ".") || strings.Contains(d, ":") {
			return fmt.Errorf("domain %q is not the name of one in lower case, without a port", d)
		}
	}
	return nil
}

func (u *Upstream) validate() error {
	at, err := url.Parse(u.Endpoint)
	switch {
	case err != nil, at.Scheme != "http" && at.Scheme != "https", at.Hostname() == "", at.User != nil,
		strings.Trim(at.Path, "/") != "", at.RawQuery != "", at.Fragment != "":
		return errors.New("upstream endpoint is not http(s)://host:port") // a password may be in it
	case u.AccessKey == "" || u.SecretKey == "":
		return errors.New("upstream needs AccessKey and SecretKey")
	}
	return nil
}

func validateClients(clients []Client) error {
	if len(clients) == 0 {
		return errors.New("without clients nobody may come")
	}
	seen := make(map[string]bool, len(clients))
	for i, c := range clients {
		switch {
		case c.AccessKey == "" || c.SecretKey == "":
			return fmt.Errorf("client %d needs AccessKey and SecretKey", i)
		case seen[c.AccessKey]:
			return fmt.Errorf("access key %q is there twice", c.AccessKey)
		case len(c.Buckets) == 0:
			return fmt.Errorf("client %q has no buckets", c.AccessKey)
		case slices.Contains(c.Buckets, allBuckets) && len(c.Buckets) > 1:
			return fmt.Errorf("client %q has all buckets, and some", c.AccessKey)
		}
		seen[c.AccessKey] = true
		for _, b := range c.Buckets {
			if b == allBuckets {
				continue
			}
			if err := s3utils.CheckValidBucketName(b); err != nil {
				return fmt.Errorf("client %q: bucket %q: %w", c.AccessKey, b, err)
			}
		}
	}
	return nil
}

func (c *Config) validateResources() error {
	seen := make(map[string]bool, len(c.Resources))
	for _, r := range c.Resources {
		bucket, prefix, found := strings.Cut(r.Prefix, "/")
		switch {
		case !found:
			return fmt.Errorf("prefix %q has no slash behind its bucket", r.Prefix)
		case s3utils.CheckValidBucketName(bucket) != nil:
			return fmt.Errorf("prefix %q does not begin with a bucket", r.Prefix)
		case layout.Reserved(prefix):
			return fmt.Errorf("prefix %q is the fence's own", r.Prefix)
		case seen[r.Prefix]:
			return fmt.Errorf("prefix %q is there twice", r.Prefix)
		}
		seen[r.Prefix] = true
		if err := guard.ValidateResource(r.Resource); err != nil {
			return fmt.Errorf("prefix %q: %w", r.Prefix, err)
		}
	}
	return nil
}

// same reports whether it is the same store, and reached in the same way, as far as can be
// told.
func (u *Upstream) same(other *Upstream) bool {
	a, b := *u, *other
	a.TLS, b.TLS = nil, nil
	return a == b && sameTLS(u.TLS, other.TLS)
}

func sameTLS(a, b *tls.Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	roots := a.RootCAs.Equal(b.RootCAs)
	a, b = a.Clone(), b.Clone()
	a.RootCAs, b.RootCAs = nil, nil // they are read anew by each reload
	return roots && reflect.DeepEqual(a, b)
}

// gateway is the configuration as package gateway takes it.
func (c *Config) gateway(to *http.Transport) gateway.Config {
	at, _ := url.Parse(c.Upstream.Endpoint) // it is valid
	g := gateway.Config{
		Upstream: gateway.Upstream{
			Host: at.Host, Secure: at.Scheme == "https", Region: c.Upstream.Region,
			AccessKey: c.Upstream.AccessKey, SecretKey: c.Upstream.SecretKey, Transport: to,
		},
		Untokened: gateway.Policy(c.Untokened), Legacy: c.Legacy, MaxBodyTime: c.MaxBodyTime,
		Domains: slices.Clone(c.Domains), Metrics: &c.Metrics.gateway, Log: c.Logger,
	}
	for _, client := range c.Clients {
		client.Buckets = slices.Clone(client.Buckets)
		g.Clients = append(g.Clients, gateway.Client(client))
	}
	for _, r := range c.Resources {
		bucket, prefix, _ := strings.Cut(r.Prefix, "/")
		g.Resources = append(g.Resources, gateway.Resource{Bucket: bucket, Prefix: prefix, Resource: r.Resource})
	}
	return g
}
