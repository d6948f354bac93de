package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// JSONFlag adds --json to a command.
func JSONFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON")
}

// PrintJSON prints v as one line.
func PrintJSON(out io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}

// PrintTable prints rows with their columns aligned.
func PrintTable(out io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Shown is a text in a table, where an empty one could not be seen.
func Shown(text string) string {
	if text == "" {
		return `""`
	}
	return text
}

// YesFlag adds --yes to a command.
func YesFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().BoolP("yes", "y", false, "don't ask")
}

// Confirm says what is at risk and returns nil if whoever runs the command
// wants it nevertheless.
func (p *Program) Confirm(ctx context.Context, cmd *cobra.Command, yes bool, risk string) error {
	if !yes && !p.Terminal() {
		return Usage(cmd, "nobody can confirm this, since standard input is not a terminal: give --yes")
	}
	fmt.Fprintln(p.Err, risk)
	if yes {
		return nil
	}
	fmt.Fprint(p.Err, `Type "yes" to go on: `)
	answers := make(chan string, 1)
	// A read from a terminal can't be interrupted: after Ctrl-C this goroutine
	// ends with the process.
	go func() {
		answer, _ := bufio.NewReader(p.In).ReadString('\n')
		answers <- strings.TrimSpace(answer)
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case answer := <-answers:
		if answer != "yes" {
			return Fail(ExitFailure, "not confirmed, nothing was changed")
		}
		return nil
	}
}
