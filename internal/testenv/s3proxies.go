package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
)

// NginxProgram is the path of nginx: sbin is rarely in PATH.
func NginxProgram(tb testing.TB) string {
	tb.Helper()
	return Program(tb, "nginx", "/usr/sbin/nginx", "debian/usr/sbin/nginx")
}

// Nginx starts an nginx in front of an S3 server, for this test alone, and
// returns its host:port. It passes everything on as it comes, without a look at
// it: what a proxy costs at least.
func Nginx(tb testing.TB, server *S3Server) string {
	tb.Helper()
	path := NginxProgram(tb)
	return beside(tb, "nginx", func(dir string, port int) (command, error) {
		config := filepath.Join(dir, "nginx.conf")
		err := os.WriteFile(config, fmt.Appendf(nil, `daemon off;
worker_processes 2;
pid %[1]s/pid;
error_log stderr error;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  client_max_body_size 0;
  keepalive_requests 1000000;
  upstream server { server %[2]s; keepalive 256; keepalive_requests 1000000; }
  server {
    listen 127.0.0.1:%[3]d;
    location / {
      proxy_pass http://server;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Connection "";
      proxy_request_buffering off;
      proxy_buffering off;
    }
  }
}
`, dir, server.addr, port), 0o600)
		return command{path: path, args: []string{"-e", "stderr", "-p", dir, "-c", config}}, err
	})
}

// VersityProxy starts a versitygw that is a proxy to an S3 server, for this
// test alone, and returns its host:port. It reads and signs what it passes on,
// under the server's own keys on both sides.
func VersityProxy(tb testing.TB, server *S3Server) string {
	tb.Helper()
	path, err := findVersityGW()
	need(tb, err)
	return beside(tb, "versitygw", func(_ string, port int) (command, error) {
		// With a bundle of certificates in the environment it does not start.
		return command{path: "env", args: []string{
			"-u", "AWS_CA_BUNDLE", path,
			"--access", server.AccessKey, "--secret", server.SecretKey, "--region", server.Region,
			"--port", localserver.Loopback(port), "--quiet", "--keep-alive",
			"s3", "--access", server.AccessKey, "--secret", server.SecretKey, "--region", server.Region,
			"--endpoint", "http://" + server.addr, "--use-path-style", "--disable-data-integrity-check",
		}}, nil
	})
}

// beside starts a program that listens on a port for HTTP.
func beside(tb testing.TB, name string, prepare func(dir string, port int) (command, error)) string {
	tb.Helper()
	dir, remove, err := scratch()
	need(tb, err)
	tb.Cleanup(remove)
	var addr string
	err = localserver.OnFreePorts(1, func(ports []int) error {
		addr = localserver.Loopback(ports[0])
		program, err := prepare(dir, ports[0])
		if err != nil {
			return err
		}
		program.logPath, program.onDeath = logIn(dir)+strconv.Itoa(ports[0]), syscall.SIGKILL
		proc, err := program.start()
		if err != nil {
			return err
		}
		tb.Cleanup(func() { proc.end(syscall.SIGTERM) })
		return proc.AwaitReady(context.Background(), time.Minute, func(ctx context.Context) error { return answersHTTP(ctx, addr) })
	})
	if err != nil {
		tb.Fatalf("testenv: start %s: %v", name, err)
	}
	return addr
}
