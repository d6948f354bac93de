// Package serve is the command serve, which runs the proxies.
package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/internal/serveconfig"
)

// serveFlag is a flag that stands for a key of the configuration.
type serveFlag struct {
	name, key, kind, usage string
}

// both is in front of a key that listeners of either protocol have.
const both = "*."

// serveFlags are those of one listener; everything else needs a file.
func serveFlags() []serveFlag {
	return []serveFlag{
		{"postgres-listen", "postgres.listen", "address", "where clients of Postgres connect: host:port, or the path of a unix socket or its folder"},
		{"postgres-upstream", "postgres.upstream.address", "address", "the Postgres server: host:port, or the path of its unix socket or its folder"},
		{"postgres-upstream-tls", "postgres.upstream.tls.mode", "mode", "TLS with the server: disable, prefer, require, verify-ca or verify-full"},
		{"postgres-upstream-ca", "postgres.upstream.tls.ca", "file", "authorities that may have signed the server's certificate"},
		{"postgres-tls-cert", "postgres.tls.cert", "file", "certificate that clients are shown; without one they connect without TLS"},
		{"postgres-tls-key", "postgres.tls.key", "file", "its key"},
		{"s3-listen", "s3.listen", "address", "where clients of S3 connect: host:port"},
		{"s3-upstream", "s3.upstream.endpoint", "url", "the store: https://host:port, or http:// without TLS; keys and region come from the environment, see above"},
		{"s3-upstream-ca", "s3.upstream.ca", "file", "authorities that may have signed the store's certificate (default: the environment's AWS_CA_BUNDLE, or the system's)"},
		{"s3-bucket", "s3.clients.buckets", "name", "the one bucket that clients may use (default: all that there are)"},
		{"s3-domain", "s3.domains", "name", "domain of requests that name their bucket in the host, as in bucket.domain"},
		{"s3-tls-cert", "s3.tls.cert", "file", "certificate that clients are shown; without one they connect without TLS"},
		{"s3-tls-key", "s3.tls.key", "file", "its key"},
		{"untokened", both + "untokened", "policy", "what clients without a token may do: read-only, deny or allow (at S3 allow takes s3[].resources, in a --config file)"},
		{"claim-wait", "postgres.claim_wait", "duration", "how long a claim waits for transactions of older tokens"},
		{"evict", "postgres.evict", "bool", "end the sessions of older tokens that a claim still waits for then"},
		{"max-connections", both + "max_connections", "int", "how many clients there may be at a time, 0 for no limit"},
		{"idle-in-transaction-timeout", "postgres.idle_in_transaction_timeout", "duration", "end a session with a token that leaves a transaction idle for so long, 0s for never"},
		{"shutdown-timeout", "shutdown_timeout", "duration", "how long sessions and requests have to end after SIGTERM"},
		{"admin-listen", "admin.listen", "address", "where /healthz, /readyz and /metrics are; :port is on this machine only"},
		{"log-format", "log.format", "format", "text or json"},
		{"log-level", "log.level", "level", "debug, info, warn or error"},
		{"log-statements", "log.statements", "bool", "log the text of a statement that is refused; passwords and tokens may be in it"},
	}
}

// keyFor is the key that the flag stands for if its listener is for protocol;
// ok is false if it is for another one.
func (f serveFlag) keyFor(protocol string) (key []string, ok bool) {
	text := f.key
	if rest, found := strings.CutPrefix(text, both); found {
		text = protocol + "." + rest
	}
	key = strings.Split(text, ".")
	return key, key[0] == protocol || key[0] != "postgres" && key[0] != "s3"
}

// flagText is a flag whose text serveconfig reads.
type flagText struct {
	text string
	kind string
	set  bool
}

func (f *flagText) String() string { return f.text }
func (f *flagText) Type() string   { return f.kind }

func (f *flagText) Set(text string) error {
	f.text, f.set = text, true
	return nil
}

// Command is fenceproxy serve.
func Command(p *cli.Program) *cobra.Command { return (&program{p}).serve() }

// program is the run of fenceproxy that the command serve is part of.
type program struct{ *cli.Program }

func (p *program) serve() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serve --config FILE [--check]",
		Short:   "Run the proxy that fences any client of Postgres or S3",
		Long:    longHelp,
		Example: examples,
		Args:    cli.NoArguments,
	}
	flags := cmd.Flags()
	file := flags.String("config", "", "the configuration, in YAML")
	check := flags.Bool("check", false, "only say whether the configuration is right, certificates included")
	defaults := map[string]string{}
	for _, key := range serveconfig.Keys() {
		defaults[strings.ReplaceAll(key.Path, "[]", "")] = key.Default
	}
	texts := map[string]*flagText{}
	for _, f := range serveFlags() {
		key, _ := f.keyFor("postgres") // whose defaults those of S3 share
		text := &flagText{text: defaults[strings.Join(key, ".")], kind: f.kind}
		texts[f.name] = text
		flags.Var(text, f.name, f.usage)
		if f.kind == "bool" {
			flags.Lookup(f.name).NoOptDefVal = "true"
		}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		load, err := p.source(cmd, *file, texts)
		if err != nil {
			return err
		}
		config, err := load()
		if err != nil {
			return p.mistakes(cmd, *file, err)
		}
		if *check {
			return p.checked(cmd, *file, config)
		}
		defer keepHeap(heapFloor)()
		return p.runService(cmd.Context(), config, load)
	}
	return cmd
}

// source is where the configuration comes from, now and at each reload.
func (p *program) source(cmd *cobra.Command, file string, texts map[string]*flagText) (func() (*serveconfig.Config, error), error) {
	protocol := "postgres"
	if texts["s3-listen"].set || texts["s3-upstream"].set {
		protocol = "s3"
	}
	var values []serveconfig.Value
	for _, f := range serveFlags() {
		text := texts[f.name]
		if !text.set {
			continue
		}
		key, ok := f.keyFor(protocol)
		switch {
		case file != "":
			return nil, cli.Usage(cmd, "--%s is not for use with --config: write %s into the file", f.name, strings.TrimPrefix(f.key, both))
		case !ok && (f.name == "postgres-listen" || f.name == "postgres-upstream"):
			return nil, cli.Usage(cmd, "one listener can be had by flags, and there is one for S3 already: use --config for more")
		case !ok:
			return nil, cli.Usage(cmd, "--%s says nothing to a listener for %s", f.name, map[string]string{"postgres": "Postgres", "s3": "S3"}[protocol])
		}
		values = append(values, serveconfig.Value{Flag: "--" + f.name, Key: key, Text: text.text})
	}
	switch {
	case file != "":
		return func() (*serveconfig.Config, error) { return serveconfig.Read(file, p.lookup) }, nil
	case !texts[protocol+"-listen"].set && !texts[protocol+"-upstream"].set:
		return nil, cli.Usage(cmd, "nothing to serve: give --config FILE, or --postgres-listen and --postgres-upstream, or --s3-listen and --s3-upstream")
	case !texts[protocol+"-listen"].set:
		return nil, cli.Usage(cmd, "--%[1]s-upstream is there, and --%[1]s-listen is missing: where clients connect", protocol)
	case !texts[protocol+"-upstream"].set:
		return nil, cli.Usage(cmd, "--%[1]s-listen is there, and --%[1]s-upstream is missing: what is behind the proxy", protocol)
	case protocol == "s3" && texts["untokened"].text == "allow":
		return nil, cli.Usage(cmd, "--untokened: allow needs resources, which are s3[].resources in a --config file and cannot be had by flags: what none of them covers is not fenced, and nothing would be")
	case protocol == "s3":
		more, err := p.s3Values(texts)
		if err != nil {
			return nil, cli.Usage(cmd, "%v", err)
		}
		values = append(values, more...)
	}
	return func() (*serveconfig.Config, error) { return serveconfig.FromValues(values) }, nil
}

// lookup looks a variable of the environment up.
func (p *program) lookup(name string) (value string, set bool) {
	for _, variable := range p.Environ() {
		if text, ok := strings.CutPrefix(variable, name+"="); ok {
			value, set = text, true // the last one counts, as in os.Getenv
		}
	}
	return value, set
}

// mistakes tells what is wrong with a configuration: a line for each mistake.
func (p *program) mistakes(cmd *cobra.Command, file string, err error) error {
	var problems serveconfig.Problems
	switch {
	case file == "":
		return cli.Usage(cmd, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	case !errors.As(err, &problems):
		if errors.Is(err, fs.ErrNotExist) {
			return cli.Fail(cli.ExitNotFound, "%w", err)
		}
		return err
	case len(problems) == 1:
		return cli.Fail(cli.ExitConfig, "%w", problems[0])
	}
	for _, problem := range problems {
		fmt.Fprintln(p.Err, problem)
	}
	return cli.Fail(cli.ExitConfig, "%s has %d mistakes", file, len(problems))
}

// checked is --check of a configuration without mistakes in itself.
func (p *program) checked(cmd *cobra.Command, file string, config *serveconfig.Config) error {
	service := newService(p, config, nil)
	defer service.cut(nil)
	if _, err := service.plans(config); err != nil {
		return p.mistakes(cmd, file, err)
	}
	for _, warning := range config.Warnings(time.Now()) {
		fmt.Fprintln(p.Err, "warning:", warning)
	}
	if file == "" {
		file = "the command line"
	}
	_, err := fmt.Fprintf(p.Out, "%s: no mistakes\n", file)
	return err
}
