package execute

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks"
)

// testExecSecured locks in services that want to know who comes, by each kind of
// URL: TLS with a certificate on both sides, where the server can be had so, and
// a password with what a URL has to encode.
func testExecSecured(t *testing.T, x *theatre) {
	for name, service := range map[string]func(*testing.T, *identity) secured{
		"etcds": func(t *testing.T, id *identity) secured {
			e := testenv.StartEtcd(t, testenv.EtcdConfig{Auth: true})
			return secured{"etcds://root:%s@" + id.front(t, e.Endpoints()[0]) + "/own/prefix?" + id.query, e.Password()}
		},
		"rediss": func(t *testing.T, id *identity) secured {
			settings := id.redis(t)
			s := testenv.StartRedis(t, testenv.RedisConfig{Settings: settings})
			password := onlyUser(t, s.Client(t))
			return secured{"rediss://app:%s@" + loopback(settings) + "/3?" + id.query, password}
		},
		"redis+sentinel": func(t *testing.T, _ *identity) secured {
			s := testenv.StartRedisSentinel(t, testenv.RedisConfig{})
			password := onlyUser(t, s.Primary.Client(t))
			watcher := goredis.NewClient(&goredis.Options{Addr: s.Addr()})
			defer watcher.Close()
			clitest.Must(t, watcher.Do(t.Context(), "ACL", "SETUSER", "watch", "on", ">wa:tch/", "+@all").Err())
			clitest.Must(t, watcher.Do(t.Context(), "ACL", "SETUSER", "default", "-@all").Err())
			return secured{"redis+sentinel://app:%s@" + s.Addr() + "/0?master=" + s.Name() + "&sentinel-user=watch&sentinel-password=wa%%3Atch%%2F", password}
		},
		"redis+cluster": func(t *testing.T, id *identity) secured {
			settings := id.redis(t)
			maps.Copy(settings, map[string]string{
				"cluster-enabled": "yes", "cluster-port": freePort(t), "cluster-announce-ip": "127.0.0.1", "tls-cluster": "yes",
			})
			client := testenv.StartRedis(t, testenv.RedisConfig{Settings: settings}).Client(t)
			clitest.Must(t, client.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
			clitest.Until(t, "the cluster is complete", func() bool {
				return strings.Contains(client.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
			})
			return secured{"redis+cluster://app:%s@" + loopback(settings) + "?tls&" + id.query, onlyUser(t, client)}
		},
		"zk": func(t *testing.T, id *identity) secured {
			addr := id.front(t, testenv.ZooKeeper(t).Addr())
			at := secured{"zk://us%%20er:%s@" + addr + "/test-" + locks.NewID() + "?tls&" + id.query, oddPassword}
			// What the first one makes is its own.
			x.on(t).start("--lock", at.as(at.password), "--resource", "other", "true").ends(0)
			return at
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := service(t, newIdentity(t))
			run := func(password string) *act {
				a := x.on(t).prepare("--resource", "orders", "--", "sh", "-c", "echo $FENCE_TOKEN; exit 3")
				a.cmd.Env = append(a.cmd.Env, connect.LockEnv+"="+at.as(password))
				clitest.Must(t, a.cmd.Start())
				a.watch()
				return a
			}
			a := run(at.password)
			if token, err := guard.Parse(a.line()); err != nil || token.Resource != "orders" || token.Number <= 0 {
				t.Errorf("token %+v, %v", token, err)
			}
			a.ends(3)
			if out := run("wr0ng").ends(cli.ExitDenied, "check user and password"); out != "" {
				t.Errorf("the command has run: %q", out)
			}
		})
	}
}

// secured is a lock service that asks for a password, which the URL has at %s.
type secured struct{ url, password string }

func (s secured) as(password string) string { return fmt.Sprintf(s.url, url.QueryEscape(password)) }

// oddPassword has what means something in a URL.
const oddPassword = "p@ss:w/rd%3F?#"

// onlyUser lets nobody lock in Redis but the user app, whose password it returns.
func onlyUser(t *testing.T, client *goredis.Client) (password string) {
	t.Helper()
	clitest.Must(t, client.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">"+oddPassword, "~*", "&*", "+@all").Err())
	clitest.Must(t, client.Do(t.Context(), "ACL", "SETUSER", "default", "-@scripting", "-@string").Err())
	return oddPassword
}

// identity is a certificate for 127.0.0.1 that servers and clients have, and
// that nobody else vouches for.
type identity struct {
	pair      tls.Certificate
	own       *x509.CertPool
	cert, key string // files
	query     string // of a URL
}

func newIdentity(t *testing.T) *identity {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	clitest.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	clitest.Must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	clitest.Must(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	dir := t.TempDir()
	id := &identity{own: x509.NewCertPool(), cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	clitest.Must(t, os.WriteFile(id.cert, cert, 0o600))
	clitest.Must(t, os.WriteFile(id.key, key, 0o600))
	id.own.AppendCertsFromPEM(cert)
	id.pair, err = tls.X509KeyPair(cert, key)
	clitest.Must(t, err)
	// In a format, where % is twice.
	id.query = strings.ReplaceAll(url.Values{"cacert": {id.cert}, "cert": {id.cert}, "key": {id.key}}.Encode(), "%", "%%")
	return id
}

// redis are settings of a Redis that takes TLS at a port of its own.
func (id *identity) redis(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"tls-port": freePort(t), "tls-cert-file": id.cert, "tls-key-file": id.key, "tls-ca-cert-file": id.cert, "tls-auth-clients": "yes",
	}
}

func loopback(settings map[string]string) string { return "127.0.0.1:" + settings["tls-port"] }

func freePort(t *testing.T) string {
	t.Helper()
	port, err := localserver.FreePort()
	clitest.Must(t, err)
	return strconv.Itoa(port)
}

// front takes TLS on behalf of a server, and returns its own address.
func (id *identity) front(t *testing.T, server string) string {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{id.pair}, ClientCAs: id.own, ClientAuth: tls.RequireAndVerifyClientCert,
		NextProtos: []string{"h2"}, // which gRPC asks for
	})
	clitest.Must(t, err)
	var running sync.WaitGroup
	t.Cleanup(func() { ln.Close(); running.Wait() })
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() { relay(conn, server) })
		}
	})
	return ln.Addr().String()
}

// relay returns when either side has closed its connection.
func relay(client net.Conn, server string) {
	defer client.Close()
	upstream, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer upstream.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, upstream)
		client.Close()
	})
	_, _ = io.Copy(upstream, client)
	upstream.Close()
	back.Wait()
}
