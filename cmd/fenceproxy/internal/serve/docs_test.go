package serve

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/internal/serveconfig"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy"
	"github.com/fenceproxy/fenceproxy/proxy/s3proxy"
)

// The example has every key and no mistake, and says what the default is where
// it is one.
func TestExampleConfig(t *testing.T) {
	t.Parallel()
	const path = "../../../../docs/examples/fenceproxy.yaml"
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{
			"FENCEPROXY_SERVER": "db.example:5432", "STORE_ACCESS_KEY": "proxy", "STORE_SECRET_KEY": "secret of the proxy",
			"APP_SECRET_KEY": "0123456789abcdef", "MONITOR_SECRET_KEY": "fedcba9876543210",
		}[name]
		return value, ok
	}
	config, err := serveconfig.Read(path, lookup)
	if err != nil {
		t.Fatal(err)
	}
	if len(config.S3) != 1 || len(config.S3[0].Clients) != 2 || len(config.Postgres) != 2 || config.Postgres[0].Upstream.Address != "db.example:5432" {
		t.Errorf("got %+v", config)
	}
	example := clitest.Text(t, path)
	for _, key := range serveconfig.Keys() {
		name := key.Path[strings.LastIndexByte(key.Path, '.')+1:]
		if !regexp.MustCompile(`(?m)^[ -]*` + name + `: `).MatchString(example) {
			t.Errorf("%s has no %s", path, key.Path)
		}
	}
	unit := clitest.Text(t, "../../../../docs/examples/fenceproxy.service")
	stop := regexp.MustCompile(`TimeoutStopSec=(\S+)`).FindStringSubmatch(unit)
	if stop == nil {
		t.Fatal("the unit has no TimeoutStopSec")
	}
	if limit, err := time.ParseDuration(stop[1]); err != nil || limit <= config.ShutdownTimeout {
		t.Errorf("systemd kills after %v, %v: before shutdown_timeout %v is over", limit, err, config.ShutdownTimeout)
	}
}

// names are those of metrics, as they are registered.
type names struct {
	prometheus.Registerer

	all []string
}

func (n *names) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 10)
	c.Describe(descs)
	close(descs)
	for desc := range descs {
		n.all = append(n.all, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(desc.String())[1])
	}
	return nil
}

// section is that of docs/operations.md with a title.
func section(t *testing.T, title string) string {
	t.Helper()
	_, section, found := strings.Cut(clitest.Text(t, "../../../../docs/operations.md"), "\n## "+title+"\n")
	if !found {
		t.Fatalf("there is no section %q", title)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// Whoever operates the proxy finds every key with its default in
// docs/operations.md, and no other.
func TestOperationsDocsKeys(t *testing.T) {
	t.Parallel()
	postgres, s3 := section(t, "The proxy"), section(t, "The proxy for S3")
	known := map[string]bool{}
	for _, key := range serveconfig.Keys() {
		known[key.Path] = true
		within := postgres
		if strings.HasPrefix(key.Path, "s3[]") {
			within = s3
		}
		row := regexp.MustCompile("(?m)^\\|.*`" + regexp.QuoteMeta(key.Path) + "`.*$").FindString(within)
		if row == "" {
			t.Errorf("there is no row of %s", key.Path)
		} else if cell := strings.TrimSpace(strings.Split(row, "|")[2]); strings.Trim(cell, "`") != key.Default {
			t.Errorf("the default of %s is %s, and the row has %s", key.Path, key.Default, cell)
		}
	}
	for _, path := range regexp.MustCompile("`((?:postgres|s3)\\[\\]\\.[a-z_.\\[\\]]+|(?:admin|log)\\.[a-z]+)`").FindAllStringSubmatch(postgres+s3, -1) {
		if !known[path[1]] {
			t.Errorf("there is no key %s", path[1])
		}
	}
}

// The same of every metric, every cause and every refusal.
func TestOperationsDocs(t *testing.T) {
	t.Parallel()
	within := section(t, "The proxy")
	metrics := names{}
	if _, err := pgproxy.NewMetrics(&metrics); err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`"(fenceproxy_\w+)"`).FindAllStringSubmatch(clitest.Text(t, "run.go"), -1) {
		metrics.all = append(metrics.all, match[1])
	}
	for _, match := range regexp.MustCompile(`fatal\("(\w+)"`).FindAllStringSubmatch(clitest.Text(t, "../../../../proxy/pgproxy/internal/refusal/refuse.go"), -1) {
		if match[1] != "idle" && match[1] != "too_long" { // these end sessions
			metrics.all = append(metrics.all, match[1])
		}
	}
	if len(metrics.all) < 20 {
		t.Errorf("only these were looked for: %q", metrics.all)
	}
	has := func(within string, names []string) {
		t.Helper()
		for _, name := range names {
			if !strings.Contains(within, "`"+name+"`") {
				t.Errorf("there is no `%s`", name)
			}
		}
	}
	has(within, metrics.all)
	for _, state := range []string{"TK001", "TK002", "TK003", "TK004", "TK005", "TK006", "TK007", "TK008"} {
		if !strings.Contains(within, "\n| "+state+" |") {
			t.Errorf("there is no row of %s", state)
		}
	}

	within, metrics = section(t, "The proxy for S3"), names{}
	if _, err := s3proxy.NewMetrics(&metrics); err != nil {
		t.Fatal(err)
	}
	has(within, metrics.all)
	for _, r := range carrier.Refusals() {
		row := fmt.Sprintf("\n| %d `%s` |", r.Status, r.Code)
		if !strings.Contains(within, row) && !errors.Is(r.Reason, guard.ErrUnclaimed) { // the proxy claims
			t.Errorf("there is no row of %s", r.Code)
		}
	}
	has(within, []string{s3ClientKeyEnv, s3ClientSecretEnv})
}

// docs/guarantees.md names every operation that the proxy for S3 serves.
func TestGuaranteesDocsOperations(t *testing.T) {
	t.Parallel()
	guarantees := clitest.Text(t, "../../../../docs/guarantees.md")
	served := regexp.MustCompile(`(?m)^\t+operation\.(\w+): +\(\*exchange\)`).FindAllStringSubmatch(clitest.Text(t, "../../../../proxy/s3proxy/gateway/dispatch.go"), -1)
	if len(served) < 20 {
		t.Errorf("only these were looked for: %q", served)
	}
	for _, name := range served {
		if !regexp.MustCompile(`\b` + name[1] + `\b`).MatchString(guarantees) {
			t.Errorf("there is no %s", name[1])
		}
	}
}

// What stands in for a key is a key.
func TestServeFlagsAreKeys(t *testing.T) {
	t.Parallel()
	for _, f := range serveFlags() {
		for _, protocol := range []string{"postgres", "s3"} {
			path, ok := f.keyFor(protocol)
			known := false
			for _, key := range serveconfig.Keys() {
				known = known || strings.ReplaceAll(key.Path, "[]", "") == strings.Join(path, ".")
			}
			if ok && !known {
				t.Errorf("--%s is for %s, which is no key", f.name, strings.Join(path, "."))
			}
		}
	}
}
