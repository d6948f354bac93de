package main

import "github.com/spf13/cobra"

func (p *program) doctor() *cobra.Command {
	return group(&cobra.Command{
		Use:   "doctor",
		Short: "Find out whether a store, a database or a lock service can be relied on",
		Long: `Looks at a part of the system and says what the fence can rely on there, what is
missing, and what to do about it. Exits with 78 if something is wrong that no
fence can do without; warnings do not count.`,
	}, p.doctorLock(), p.doctorPostgres(), p.doctorS3())
}
