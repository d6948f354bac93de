package lockurl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/locks"
)

// Target is a lock service that can be opened.
type Target struct {
	scheme   string
	hosts    []string // host:port each
	user     string
	password string
	path     string // without the slash that begins it
	query    url.Values
	open     opener
}

// Service is an open lock service. Close it when its leases are released.
type Service struct {
	locks.Locker
	close func() error
}

// Close ends what is still held, and the connections. It takes some seconds if
// the service does not answer; its error says that something could not be
// released, and ends by its time.
func (s *Service) Close() error { return s.close() }

type opener func(ctx context.Context, t *Target, ttl time.Duration) (*Service, error)

// kind is what is to know about a scheme.
type kind struct {
	port  string // default
	one   bool   // only one host
	tls   bool
	query []string // further parameters
	check func(t *Target) error
	open  opener
}

func kindOf(scheme string) (kind, bool) {
	redis := []string{"issuer", "prefix", "replicas"}
	switch scheme {
	case "etcd", "etcds":
		return kind{port: "2379", tls: scheme == "etcds", check: checkUser, open: openEtcd}, true
	case "redis", "rediss":
		return kind{port: "6379", one: true, tls: scheme == "rediss", query: redis, check: checkRedis, open: openRedis}, true
	case "redis+sentinel":
		return kind{port: "26379", query: append(redis, "master", "sentinel-user", "sentinel-password"), check: checkRedis, open: openRedis}, true
	case "redis+cluster":
		return kind{port: "6379", query: redis, check: checkRedis, open: openRedis}, true
	case "zk":
		return kind{port: "2181", check: checkUser, open: openZooKeeper}, true
	}
	return kind{}, false
}

// Parse reads a URL. It asks nobody and opens no file.
func Parse(text string) (*Target, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return nil, errors.New("it does not begin with etcd://, redis:// or another scheme")
	}
	k, known := kindOf(scheme)
	if !known {
		return nil, errors.New("its scheme is none of etcd, etcds, redis, rediss, redis+sentinel, redis+cluster and zk")
	}
	hosts, rest := cutHosts(rest)
	u, err := url.Parse("x://" + rest)
	if err != nil {
		return nil, errors.New("user, password and path must have their special characters percent-encoded")
	}
	if u.Fragment != "" {
		return nil, errors.New("it has a fragment (#): percent-encode the character")
	}
	t := &Target{scheme: scheme, user: u.User.Username(), path: strings.TrimPrefix(u.Path, "/"), open: k.open}
	t.password, _ = u.User.Password()
	if t.hosts, err = splitHosts(hosts, k.port); err != nil {
		return nil, err
	}
	if k.one && len(t.hosts) > 1 {
		return nil, errors.New("it names several hosts: use redis+sentinel:// or redis+cluster://")
	}
	if t.query, err = url.ParseQuery(u.RawQuery); err != nil {
		return nil, errors.New("its query must have special characters percent-encoded")
	}
	if k.tls {
		t.query.Set("tls", "true")
	}
	if err := t.checkQuery(append([]string{"tls", "cacert", "cert", "key"}, k.query...)); err != nil {
		return nil, err
	}
	return t, k.check(t)
}

// cutHosts takes the hosts out of what follows the scheme: net/url knows no
// list of them. What is left has a host "h" in their place.
func cutHosts(rest string) (hosts, left string) {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	user := strings.LastIndexByte(rest[:end], '@') + 1
	return rest[user:end], rest[:user] + "h" + rest[end:]
}

func splitHosts(list, port string) ([]string, error) {
	var hosts []string
	for host := range strings.SplitSeq(list, ",") {
		if host == "" {
			return nil, errors.New("a host is missing")
		}
		name, number, err := net.SplitHostPort(host)
		if err != nil {
			name, number, err = net.SplitHostPort(host + ":" + port)
		}
		if _, errPort := strconv.ParseUint(number, 10, 16); err != nil || errPort != nil || name == "" {
			return nil, fmt.Errorf("%q is not host:port", host)
		}
		hosts = append(hosts, net.JoinHostPort(name, number))
	}
	return hosts, nil
}

// checkQuery refuses parameters that are not known, or given twice, and files
// that TLS would use if it were on.
func (t *Target) checkQuery(known []string) error {
	for name, values := range t.query {
		if !slices.Contains(known, name) {
			return fmt.Errorf("parameter %q is unknown; there are %s", name, strings.Join(known, ", "))
		}
		if len(values) > 1 {
			return fmt.Errorf("parameter %q is given twice", name)
		}
	}
	if t.query.Has("tls") {
		switch t.query.Get("tls") {
		case "", "true":
			t.query.Set("tls", "true")
		case "false":
			t.query.Del("tls")
		default:
			return errors.New("parameter tls is neither true nor false")
		}
	}
	for _, name := range []string{"cacert", "cert", "key"} {
		if t.query.Has(name) && !t.query.Has("tls") {
			return fmt.Errorf("parameter %q needs TLS: add tls=true", name)
		}
	}
	if t.query.Has("cert") != t.query.Has("key") {
		return errors.New("parameters cert and key go together")
	}
	return nil
}

// checkUser is for services that know no password without a user.
func checkUser(t *Target) error {
	if t.password != "" && t.user == "" {
		return errors.New("it has a password and no user")
	}
	return nil
}

// String names the service, without user, password and parameters.
func (t *Target) String() string {
	text := t.scheme + "://" + strings.Join(t.hosts, ",")
	if t.path != "" {
		text += "/" + t.path
	}
	return text
}

// Product is what kind of lock service it is: "etcd", "redis" or "zookeeper".
func (t *Target) Product() string {
	switch {
	case strings.HasPrefix(t.scheme, "etcd"):
		return "etcd"
	case strings.HasPrefix(t.scheme, "redis"):
		return "redis"
	default:
		return "zookeeper"
	}
}

// Hosts are the servers that the URL names, host:port each.
func (t *Target) Hosts() []string { return slices.Clone(t.hosts) }

// Open opens the service. Locks last ttl after the last sign of life of this
// process.
func (t *Target) Open(ctx context.Context, ttl time.Duration) (*Service, error) {
	s, err := t.open(ctx, t, ttl)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", t, err)
	}
	return s, nil
}
