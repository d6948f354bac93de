package serve

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

// TestServeS3 runs the built program: what matters is what becomes of requests
// when signals come.
func TestServeS3(t *testing.T) {
	t.Parallel()
	program := clitest.Built(t)
	for name, f := range map[string]func(*testing.T, *clitest.Shop){
		"fences":            testServeS3Fences,
		"flags":             testServeS3Flags,
		"ready":             testServeS3Ready,
		"port in use":       testServeS3PortInUse,
		"drain":             testServeS3Drain,
		"drain, cut":        testServeS3DrainCut,
		"drain, overdue":    testServeS3DrainOverdue,
		"reload":            testServeS3Reload,
		"reload, mistakes":  testServeS3ReloadMistakes,
		"reload, listeners": testServeS3ReloadListeners,
		"reload, upstream":  testServeS3ReloadUpstream,
		"reload, protocol":  testServeS3ReloadProtocol,
		"reload, TLS":       testServeS3ReloadTLS,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, clitest.NewShop(t, program))
		})
	}
}

// A current token writes, a stale one does not, and what happened shows in the
// log and in the metrics, but for who the holder is, and for secrets.
func testServeS3Fences(t *testing.T, s *clitest.Shop) {
	p := s.Serve(clitest.OneShop)
	addr := p.Addr("127.0.0.1:0")
	s.Stores(s.Customer(addr, 33).Put("k", "one"))
	s.Stores(s.Customer(addr, 34).Put("k", "two"))
	s.Refuses(s.Customer(addr, 33).Put("k", "three"), "FenceTokenStale")
	s.Refuses(s.Customer(addr, 0).Put("k", "four"), "FenceTokenMissing")
	s.Refuses(s.CustomerOf(addr, "app", "s3cret-of-another", 34, nil).Put("k", "five"), "SignatureDoesNotMatch")
	s.Refuses(s.CustomerOf(addr, "nobody", "s3cret-of-the-app", 34, nil).Put("k", "six"), "InvalidAccessKeyId")
	s.Holds(addr, "two")
	p.Await("FenceTokenStale", `"resource":"orders"`, `"number":33`, `"mark":"generation=0 writer=34 reader=0 issuer=test"`)
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok", "/metrics": `resource="orders"`} {
		if status, text := p.Get(path); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if _, text := p.Get("/metrics"); !strings.Contains(text, `fenceproxy_s3_requests_total{class="2xx",listen="127.0.0.1:0",operation="PutObject"} 2`) {
		t.Errorf("metrics: %s", text)
	}
	p.Signal(syscall.SIGTERM)
	p.Ends(0, "stopped")
	for _, secret := range []string{"s3cret", s.Server.SecretKey, "h33", "h34", "Signature="} {
		if strings.Contains(p.Log(), secret) {
			t.Errorf("the log has %q in it", secret)
		}
	}
}

// All that one listener needs comes by flags, but for its secrets.
func testServeS3Flags(_ *testing.T, s *clitest.Shop) {
	env := []string{
		"AWS_ACCESS_KEY_ID=" + s.Server.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.Server.SecretKey, "AWS_REGION=" + s.Server.Region, "AWS_SESSION_TOKEN=",
		s3ClientKeyEnv + "=app", s3ClientSecretEnv + "=s3cret-of-the-app",
	}
	p := clitest.StartServe(s.T, s.Program, env, "--s3-listen", "127.0.0.1:0", "--s3-upstream", "http://"+s.Server.Endpoint(), "--s3-bucket", s.Bucket, "--untokened=deny", "--log-format=json")
	addr := p.Addr("127.0.0.1:0")
	s.Stores(s.Customer(addr, 34).Put("k", "one"))
	_, code := s.Customer(addr, 0).Get("k")
	s.Refuses(code, "FenceTokenMissing")
	other := s.Customer(addr, 34)
	other.Bucket = "another"
	_, code = other.Get("k")
	s.Refuses(code, "AccessDenied")
	p.Reload()
	s.Stores(s.Customer(addr, 34).Put("k", "two"))
	p.Signal(syscall.SIGINT)
	p.Ends(0, "stopped")
}

// Readiness is that of the store behind.
func testServeS3Ready(t *testing.T, s *clitest.Shop) {
	link := testenv.NewLink(t, s.Server.Endpoint(), testenv.LinkConfig{})
	p := s.Serve(strings.Replace(clitest.OneShop, "STORE", link.Addr(), 1))
	if status, text := p.Get("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, text)
	}
	link.Refuse(true)
	clitest.Until(t, "it is not ready", func() bool {
		status, text := p.Get("/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "127.0.0.1:0: ")
	})
	if status, _ := p.Get("/healthz"); status != 200 {
		t.Errorf("/healthz: %d", status)
	}
}

func testServeS3PortInUse(t *testing.T, s *clitest.Shop) {
	taken := s.Server.Endpoint()
	path := s.File(strings.Replace(clitest.OneShop, "listen: 127.0.0.1:0", "listen: "+taken, 1))
	clitest.StartServe(t, s.Program, nil, "--config", path).Ends(78, "fenceproxy: "+path+":3:13: s3[0].listen: cannot listen on "+taken+": another program listens there")
}
