package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fenceproxy/fenceproxy/internal/serveconfig"
	"github.com/fenceproxy/fenceproxy/proxy/pgproxy"
)

func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// The example has every key and no mistake, and says what the default is where
// it is one.
func TestExampleConfig(t *testing.T) {
	t.Parallel()
	const path = "../../docs/examples/fenceproxy.yaml"
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
	example := text(t, path)
	for _, key := range serveconfig.Keys() {
		name := key.Path[strings.LastIndexByte(key.Path, '.')+1:]
		if !regexp.MustCompile(`(?m)^[ -]*` + name + `: `).MatchString(example) {
			t.Errorf("%s has no %s", path, key.Path)
		}
	}
	unit := text(t, "../../docs/examples/fenceproxy.service")
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

// Whoever operates the proxy finds every key with its default, every metric,
// every cause and every refusal in docs/operations.md.
func TestOperationsDocs(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(text(t, "../../docs/operations.md"), "\n## The proxy\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, key := range serveconfig.Keys() {
		row := regexp.MustCompile("(?m)^\\|.*`" + regexp.QuoteMeta(key.Path) + "`.*$").FindString(section)
		if row == "" {
			t.Errorf("there is no row of %s", key.Path)
		} else if cell := strings.TrimSpace(strings.Split(row, "|")[2]); strings.Trim(cell, "`") != key.Default {
			t.Errorf("the default of %s is %s, and the row has %s", key.Path, key.Default, cell)
		}
	}
	for _, path := range regexp.MustCompile("`(postgres\\[\\]\\.[a-z_.]+|(?:admin|log)\\.[a-z]+)`").FindAllStringSubmatch(section, -1) {
		known := false
		for _, key := range serveconfig.Keys() {
			known = known || key.Path == path[1]
		}
		if !known {
			t.Errorf("there is no key %s", path[1])
		}
	}
	metrics := names{}
	if _, err := pgproxy.NewMetrics(&metrics); err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`"(fenceproxy_\w+)"`).FindAllStringSubmatch(text(t, "serve_run.go"), -1) {
		metrics.all = append(metrics.all, match[1])
	}
	for _, match := range regexp.MustCompile(`fatal\("(\w+)"`).FindAllStringSubmatch(text(t, "../../proxy/pgproxy/internal/refusal/refuse.go"), -1) {
		if match[1] != "idle" && match[1] != "too_long" { // these end sessions
			metrics.all = append(metrics.all, match[1])
		}
	}
	if len(metrics.all) < 20 {
		t.Errorf("only these were looked for: %q", metrics.all)
	}
	for _, name := range metrics.all {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("there is no `%s`", name)
		}
	}
	for _, state := range []string{"TK001", "TK002", "TK003", "TK004", "TK005", "TK006", "TK007", "TK008"} {
		if !strings.Contains(section, "\n| "+state+" |") {
			t.Errorf("there is no row of %s", state)
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
