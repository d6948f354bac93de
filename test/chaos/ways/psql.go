package ways

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// psqlWay goes in by psql through a proxy: a process for each act, as scripts do.
type psqlWay struct {
	program string
	urls    []string
	dice    *rand.Rand
}

func openPsql(a Access, dice *rand.Rand) Way {
	return &psqlWay{a.Psql, a.Proxies, dice}
}

func (w *psqlWay) Close() {}

func (w *psqlWay) Enter(ctx context.Context, token guard.Token, r Register) (Tenure, error) {
	env, err := carrier.SetEnv([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, token)
	if err != nil {
		return nil, err
	}
	t := &psqlTenure{way: w, env: env, at: r}
	_, err = t.run(ctx, func(in io.Writer) { fmt.Fprintln(in, "SELECT 1;") })
	return t, err
}

type psqlTenure struct {
	way *psqlWay
	env []string
	at  Register
}

func (t *psqlTenure) Leave() {}

func (t *psqlTenure) Read(ctx context.Context) (s history.State, err error) {
	out, err := t.run(ctx, func(in io.Writer) { fmt.Fprintln(in, "SELECT version, id FROM register_"+t.at.Table+";") })
	if err != nil {
		return s, err
	}
	version, id, _ := strings.Cut(out, "|")
	s.ID = id
	_, err = fmt.Sscan(version, &s.Version)
	return s, err
}

func (t *psqlTenure) Write(ctx context.Context, e history.Entry, pause func()) (history.State, error) {
	out, err := t.run(ctx, func(in io.Writer) {
		switch t.way.dice.IntN(3) {
		case 0:
			fmt.Fprintf(in, "%s;\n", t.at.write(e, t.way.dice))
			return
		case 1: // in one message
			fmt.Fprintf(in, "BEGIN\\; %s\\; COMMIT;\n", t.at.write(e, t.way.dice))
			return
		}
		fmt.Fprintf(in, "BEGIN ISOLATION LEVEL %s;\n", levels[t.way.dice.IntN(len(levels))])
		pause()
		fmt.Fprintf(in, "%s;\n", t.at.write(e, t.way.dice))
		pause()
		fmt.Fprintln(in, "COMMIT;")
	})
	s := history.State{ID: e.ID}
	if err != nil {
		return s, err
	}
	_, err = fmt.Sscan(out, &s.Version)
	return s, err
}

// run runs a script, as it is written, and returns what psql says.
func (t *psqlTenure) run(ctx context.Context, script func(io.Writer)) (string, error) {
	cmd := exec.CommandContext(ctx, t.way.program,
		"-XqAt", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=sqlstate", "-f", "-", t.way.urls[t.way.dice.IntN(len(t.way.urls))])
	cmd.Env = t.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", guard.WithOutcome(err, guard.NotApplied)
	}
	if err := cmd.Start(); err != nil {
		return "", guard.WithOutcome(err, guard.NotApplied)
	}
	script(in)
	in.Close()
	if err := cmd.Wait(); err != nil {
		return "", judgePsql(errs.String(), err)
	}
	return strings.TrimSpace(out.String()), nil
}

// judgePsql tells from what psql has said what became of a script.
func judgePsql(said string, err error) error {
	err = fmt.Errorf("psql: %w: %s", err, strings.TrimSpace(said))
	if strings.HasPrefix(said, "psql: error: connection to server") { // it never got in
		return guard.WithOutcome(err, guard.NotApplied)
	}
	if _, state, ok := strings.Cut(said, "ERROR:  "); ok && len(state) >= 5 {
		return refusal(state[:5], err)
	}
	return guard.WithOutcome(err, guard.Unknown)
}
