package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/internal/serveconfig"
)

// serveFlag is a flag that stands for a key of the configuration.
type serveFlag struct {
	name, key, kind, usage string
}

// serveFlags are those of one listener; everything else needs a file.
func serveFlags() []serveFlag {
	return []serveFlag{
		{"postgres-listen", "postgres.listen", "address", "where clients of Postgres connect: host:port, or the path of a unix socket or its folder"},
		{"postgres-upstream", "postgres.upstream.address", "address", "the Postgres server: host:port, or the path of its unix socket or its folder"},
		{"postgres-upstream-tls", "postgres.upstream.tls.mode", "mode", "TLS with the server: disable, prefer, require, verify-ca or verify-full"},
		{"postgres-upstream-ca", "postgres.upstream.tls.ca", "file", "authorities that may have signed the server's certificate"},
		{"postgres-tls-cert", "postgres.tls.cert", "file", "certificate that clients are shown; without one they connect without TLS"},
		{"postgres-tls-key", "postgres.tls.key", "file", "its key"},
		{"untokened", "postgres.untokened", "policy", "what sessions without a token may do: read-only, deny or allow"},
		{"claim-wait", "postgres.claim_wait", "duration", "how long a claim waits for transactions of older tokens"},
		{"evict", "postgres.evict", "bool", "end the sessions of older tokens that a claim still waits for then"},
		{"max-connections", "postgres.max_connections", "int", "how many clients there may be at a time, 0 for no limit"},
		{"idle-in-transaction-timeout", "postgres.idle_in_transaction_timeout", "duration", "end a session with a token that leaves a transaction idle for so long, 0s for never"},
		{"shutdown-timeout", "shutdown_timeout", "duration", "how long sessions have to end after SIGTERM"},
		{"admin-listen", "admin.listen", "address", "where /healthz, /readyz and /metrics are; :port is on this machine only"},
		{"log-format", "log.format", "format", "text or json"},
		{"log-level", "log.level", "level", "debug, info, warn or error"},
	}
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

func (p *program) serve() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serve --config FILE [--check]",
		Short:   "Run the proxy that fences any client of Postgres",
		Long:    serveLong,
		Example: serveExample,
		Args:    noArguments,
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
		text := &flagText{text: defaults[f.key], kind: f.kind}
		texts[f.name] = text
		flags.Var(text, f.name, f.usage)
		if f.kind == "bool" {
			flags.Lookup(f.name).NoOptDefVal = "true"
		}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		load, err := p.serveSource(cmd, *file, texts)
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
		return p.runService(cmd.Context(), config, load)
	}
	return cmd
}

// serveSource is where the configuration comes from, now and at each reload.
func (p *program) serveSource(cmd *cobra.Command, file string, texts map[string]*flagText) (func() (*serveconfig.Config, error), error) {
	var values []serveconfig.Value
	for _, f := range serveFlags() {
		if text := texts[f.name]; text.set {
			values = append(values, serveconfig.Value{Flag: "--" + f.name, Key: strings.Split(f.key, "."), Text: text.text})
		}
	}
	switch {
	case file != "" && len(values) > 0:
		return nil, usage(cmd, "%s is not for use with --config: write %s into the file", values[0].Flag, strings.Join(values[0].Key, "."))
	case file != "":
		return func() (*serveconfig.Config, error) { return serveconfig.Read(file, p.lookup) }, nil
	case !texts["postgres-listen"].set, !texts["postgres-upstream"].set:
		return nil, usage(cmd, "nothing to serve: give --config FILE, or --postgres-listen and --postgres-upstream")
	}
	return func() (*serveconfig.Config, error) { return serveconfig.FromValues(values) }, nil
}

// lookup looks a variable of the environment up.
func (p *program) lookup(name string) (value string, set bool) {
	for _, variable := range p.environ() {
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
		return usage(cmd, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	case !errors.As(err, &problems):
		if errors.Is(err, fs.ErrNotExist) {
			return fail(exitNotFound, "%w", err)
		}
		return err
	case len(problems) == 1:
		return fail(exitConfig, "%w", problems[0])
	}
	for _, problem := range problems {
		fmt.Fprintln(p.err, problem)
	}
	return fail(exitConfig, "%s has %d mistakes", file, len(problems))
}

// checked is --check of a configuration without mistakes in itself.
func (p *program) checked(cmd *cobra.Command, file string, config *serveconfig.Config) error {
	var problems serveconfig.Problems
	for i := range config.Postgres {
		var wrong serveconfig.Problems
		if _, _, err := config.LoadTLS(i); errors.As(err, &wrong) {
			problems = append(problems, wrong...)
		}
	}
	if len(problems) > 0 {
		return p.mistakes(cmd, file, problems)
	}
	for _, warning := range config.Warnings(time.Now()) {
		fmt.Fprintln(p.err, "warning:", warning)
	}
	if file == "" {
		file = "the command line"
	}
	_, err := fmt.Fprintf(p.out, "%s: no mistakes\n", file)
	return err
}
