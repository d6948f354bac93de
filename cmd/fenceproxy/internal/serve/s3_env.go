package serve

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/internal/serveconfig"
)

// What clients of an S3 listener by flags sign with, in the environment: ps
// shows flags to everybody.
const (
	s3ClientKeyEnv    = "FENCEPROXY_S3_ACCESS_KEY"
	s3ClientSecretEnv = "FENCEPROXY_S3_SECRET_KEY"
)

// s3Values are the values of an S3 listener by flags that come from the
// environment: what the proxy signs with, where the aws command has it too, and
// what clients do.
func (p *program) s3Values(texts map[string]*flagText) ([]serveconfig.Value, error) {
	if connect.SessionToken(p.Env) != "" {
		return nil, errors.New("AWS_SESSION_TOKEN is set: keys that are good for a time only are not for a proxy; give it keys of its own, and unset it")
	}
	var values []serveconfig.Value
	add := func(key string, names ...string) bool {
		for _, name := range names {
			if text := p.Env(name); text != "" {
				values = append(values, serveconfig.Value{Flag: name, Key: strings.Split(key, "."), Text: text})
				return true
			}
		}
		return false
	}
	needed := []struct {
		who            string
		access, secret string // variables
		key            string
	}{
		{"the proxy itself, at the store", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "s3.upstream"},
		{"clients", s3ClientKeyEnv, s3ClientSecretEnv, "s3.clients"},
	}
	for _, n := range needed {
		if !add(n.key+".access_key", n.access) || !add(n.key+".secret_key", n.secret) {
			return nil, fmt.Errorf("no keys for %s: set %s and %s", n.who, n.access, n.secret)
		}
	}
	add("s3.upstream.region", "AWS_REGION", "AWS_DEFAULT_REGION")
	if !texts["s3-upstream-ca"].set && strings.HasPrefix(texts["s3-upstream"].text, "https://") {
		add("s3.upstream.ca", "AWS_CA_BUNDLE")
	}
	if !texts["s3-bucket"].set {
		values = append(values, serveconfig.Value{Flag: "--s3-bucket", Key: []string{"s3", "clients", "buckets"}, Text: "*"})
	}
	return values, nil
}
