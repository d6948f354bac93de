package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (p *Program) root(commands []func(*Program) *cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "fenceproxy",
		Short: "Make databases enforce fencing tokens",
		Long: `A lock on a lease cannot stop a holder that was paused past its lease. The
resource can: it remembers the highest fencing token it has seen, and refuses
lower ones. fenceproxy installs that into PostgreSQL, does the like for objects in
S3, stands as a proxy in front of both for clients that know nothing of it,
runs programs under a lock so that they are held to it, and shows it.`,
		Example: `  fenceproxy demo                                  # see a lost update, and see it refused
  export DATABASE_URL=postgres://admin@db.example/app
  fenceproxy migrate up --grant app                # install the fence
  fenceproxy marks list                            # what each resource has seen
  fenceproxy exec --lock etcd://etcd:2379 --resource orders --claim $DATABASE_URL -- psql $DATABASE_URL`,
		Args:          NoArguments,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	version := root.Flags().Bool("version", false, "print what the command version prints")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return p.printVersion(false)
		}
		return cmd.Help()
	}
	root.SetFlagErrorFunc(flagError)
	for _, command := range commands {
		root.AddCommand(command(p))
	}
	root.AddCommand(p.version(), exitCodes())
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = helpTopic
	}
	return root
}

// helpTopic refuses help on commands that don't exist: cobra would show that of
// the last one that does.
func helpTopic(cmd *cobra.Command, args []string) error {
	found, rest, err := cmd.Root().Find(args)
	switch {
	case err != nil:
		return Usage(cmd, "%v", err)
	case len(rest) == 0:
		return nil
	case found.HasParent():
		return Usage(found, "unknown command %q", rest[0])
	}
	return NoArguments(found, rest)
}

// Group is a command that only holds others.
func Group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(children...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		names := make([]string, 0, len(children))
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() {
				names = append(names, child.Name())
			}
		}
		if len(args) > 0 {
			return Usage(cmd, "unknown command %q: %s has %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
		}
		return Usage(cmd, "choose one of %s", strings.Join(names, ", "))
	}
	return cmd
}

// NoArguments refuses arguments; of the root command those are commands that
// don't exist.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasParent() {
		return Usage(cmd, "takes no argument, got %q", args[0])
	}
	hint := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return Usage(cmd, "unknown command %q%s", args[0], hint)
}

// OneArgument wants exactly the argument called name.
func OneArgument(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Usage(cmd, "wants one argument, %s, got %d", name, len(args))
		}
		return nil
	}
}
