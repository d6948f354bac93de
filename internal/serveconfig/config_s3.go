package serveconfig

import "time"

// S3 is one listener for clients of S3 and the store behind it.
type S3 struct {
	// Listen is where clients connect: a host:port.
	Listen string `yaml:"listen" need:"yes"`
	// TLS is that with clients; none: they connect without.
	TLS *S3TLS `yaml:"tls"`
	// Upstream is the store.
	Upstream S3Upstream `yaml:"upstream" need:"yes"`
	// Clients are who may come. Access keys differ.
	Clients []S3Client `yaml:"clients" need:"yes"`
	// Untokened is what requests without a token may do.
	Untokened string `yaml:"untokened" default:"read-only" oneof:"read-only deny allow"`
	// Resources are the resources that keys belong to, by their prefixes; the
	// longest one counts. Keys of no prefix belong to whoever writes them first,
	// or, with Untokened allow, are not fenced.
	Resources []S3Resource `yaml:"resources"`
	// Legacy admits objects that were there before the fence.
	Legacy bool `yaml:"legacy" default:"false"`
	// MaxBodyTime is how long a body may make no progress before its request ends.
	MaxBodyTime time.Duration `yaml:"max_body_time" default:"60s"`
	// Domains are those of requests that name their bucket in the host, as in
	// bucket.domain.
	Domains []string `yaml:"domains"`
	// MaxConnections is how many clients' connections there may be at a time.
	MaxConnections int `yaml:"max_connections" default:"0" zero:"no limit"`
	// HeaderTimeout is how long the header of a request, and TLS, may take.
	HeaderTimeout time.Duration `yaml:"header_timeout" default:"10s"`
	// IdleTimeout is how long a connection may wait for its next request.
	IdleTimeout time.Duration `yaml:"idle_timeout" default:"2m"`
}

// S3TLS is how the proxy shows itself to clients of S3.
type S3TLS struct {
	// Cert is a file with the certificate and those that signed it, in PEM.
	Cert string `yaml:"cert" need:"yes"`
	// Key is the file with its key, in PEM.
	Key string `yaml:"key" need:"yes"`
	// ClientCA is a file with authorities. If there is one, clients must show a
	// certificate that one of them signed.
	ClientCA string `yaml:"client_ca"`
}

// S3Upstream is the store, and who the proxy is there.
type S3Upstream struct {
	// Endpoint is the store's URL, https://host:port, or http:// without TLS.
	Endpoint string `yaml:"endpoint" need:"yes"`
	// Region is what requests to the store, and those of clients, are signed for.
	Region string `yaml:"region" default:"us-east-1"`
	// AccessKey and SecretKey are the proxy's own, which clients need not know.
	AccessKey string `yaml:"access_key" need:"yes"`
	SecretKey Secret `yaml:"secret_key" need:"yes"`
	// CA is a file with the authorities that may have signed the store's
	// certificate. Without one those of the system are trusted.
	CA string `yaml:"ca"`
	// ResponseTimeout is how long the store may take to begin its answer.
	ResponseTimeout time.Duration `yaml:"response_timeout" default:"2m"`
}

// S3Client is somebody who may come.
type S3Client struct {
	// AccessKey is the client's name, and SecretKey what it signs with.
	AccessKey string `yaml:"access_key" need:"yes"`
	SecretKey Secret `yaml:"secret_key" need:"yes"`
	// Buckets are those that the client may use; * alone is all.
	Buckets []string `yaml:"buckets" need:"yes"`
	// ReadOnly refuses its writes, whatever its token.
	ReadOnly bool `yaml:"read_only" default:"false"`
}

// S3Resource says which resource keys belong to.
type S3Resource struct {
	// Prefix is bucket/prefix of the keys; bucket/ is the whole bucket.
	Prefix string `yaml:"prefix" need:"yes"`
	// Resource is the name that tokens have.
	Resource string `yaml:"resource" need:"yes"`
}
