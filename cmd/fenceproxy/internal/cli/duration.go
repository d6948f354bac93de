package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// DurationVar adds a flag for a duration to cmd. What is none is refused in the words
// that serve has for the same key of a file.
func DurationVar(cmd *cobra.Command, at *time.Duration, name string, value time.Duration, usage string) {
	*at = value
	cmd.Flags().Var(&duration{at, name}, name, usage)
}

// duration is the value of such a flag.
type duration struct {
	at   *time.Duration
	name string
}

func (d *duration) Type() string { return "duration" }

// String is "" for 0, so that help does not tell it as the default.
func (d *duration) String() string {
	if *d.at == 0 {
		return ""
	}
	return d.at.String()
}

func (d *duration) Set(text string) error {
	value, err := time.ParseDuration(text)
	if err != nil {
		return &durationError{d.name, text}
	}
	*d.at = value
	return nil
}

// flagError is the error of a command line with a flag that makes no sense.
func flagError(cmd *cobra.Command, err error) error {
	if wrong := (*durationError)(nil); errors.As(err, &wrong) {
		err = wrong // without what pflag has put around it
	}
	return Usage(cmd, "%v", err)
}

type durationError struct{ name, text string }

func (e *durationError) Error() string {
	return fmt.Sprintf("--%s: %q is not a duration with a unit, as in 500ms, 10s or 5m", e.name, e.text)
}
