package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/cli"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/connect"
	"github.com/fenceproxy/fenceproxy/stores/s3/probe"
)

func (p *program) s3() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "s3",
		Short: "Try out which conditions an S3 store honours",
		Long: `Tries out which conditions an S3 store honours, and says whether a bucket of it
can hold fenced objects. It makes small objects below .fence/probe/ in the bucket
and removes them again, also when it is interrupted: a few hundred requests. It
needs the right to put, get and delete objects, and to list the bucket.

Of the rows that are NEEDED each must be honoured: that PutObject and
CompleteMultipartUpload create and overwrite only on their conditions, that of
many at once one wins, that ETags tell contents apart, and that reads see the last
write. The others are only told: fenced objects do not rest on them. A row that is
unknown could not be tried, or its answer says nothing: as good as not honoured.

That a store is atomic cannot be proved by trying. --rounds is how often each
race is run; a race that is lost once is enough.

` + connect.BucketHelp + `

Exits with 78 if the bucket cannot hold fenced objects, 66 if there is no such
bucket, 69 if the store does not answer, 77 if it does not let this user in.

With --json:
  {"endpoint":"https://s3.example","bucket":"b","framed":true,"milliseconds":812,
   "checks":[{"name":"PutObject/create-existing","operation":"PutObject",
   "asked":"If-None-Match: * is refused where something is",
   "answer":"412 PreconditionFailed","result":"honoured","framed":true}],"left":[]}`,
		Example: `  fenceproxy doctor s3 --endpoint https://s3.example:9000 --bucket orders
  fenceproxy doctor s3 --bucket orders --rounds 20
  fenceproxy doctor s3 --bucket orders --json | jq -r '.checks[]|select(.result!="honoured")|.name'`,
		Args: cli.NoArguments,
	}
	connect.BucketFlags(cmd)
	rounds := cmd.Flags().Int("rounds", 3, "how often each race is run")
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *rounds < 1 {
			return cli.Usage(cmd, "--rounds is below 1")
		}
		bucket, err := connect.BucketOf(cmd, p.Env)
		if err != nil {
			return err
		}
		defer bucket.Close()
		return p.runS3(cmd.Context(), bucket, *rounds, *asJSON)
	}
	return cmd
}

func (p *program) runS3(ctx context.Context, bucket *connect.Bucket, rounds int, asJSON bool) error {
	report, err := probe.Run(ctx, bucket.Client, probe.Config{Bucket: bucket.Name, Rounds: rounds, Transport: bucket.Transport})
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return bucket.Explain(err)
	}
	verdict := report.Framed()
	if asJSON {
		err = cli.PrintJSON(p.Out, report)
	} else {
		err = p.printProbe(report)
	}
	return errors.Join(err, unfit(verdict))
}

// unfit names what a bucket does not honour; the table has the answers.
func unfit(err error) error {
	var verdict *probe.UnfitError
	if !errors.As(err, &verdict) {
		return err
	}
	names := make([]string, 0, len(verdict.Rows))
	for _, row := range verdict.Rows {
		names = append(names, row.Name)
	}
	return cli.Fail(cli.ExitSchema, "bucket %q cannot hold fenced objects, for want of %s", verdict.Bucket, strings.Join(names, ", "))
}

func (p *program) printProbe(report *probe.Report) error {
	rows := [][]string{{"OPERATION", "ASKED", "ANSWER", "RESULT", "NEEDED"}}
	for _, row := range report.Rows {
		needed := "-"
		if row.Framed {
			needed = "yes"
		}
		rows = append(rows, []string{row.Operation, row.Asked, strings.Join(strings.Fields(row.Answer), " "), row.Result.String(), needed})
	}
	if err := cli.PrintTable(p.Out, rows); err != nil {
		return err
	}
	if len(report.Left) > 0 {
		fmt.Fprintf(p.Out, "\ncould not be removed:\n  %s\n", strings.Join(report.Left, "\n  "))
	}
	fits := "can hold fenced objects"
	if report.Framed() != nil {
		fits = "cannot hold fenced objects"
	}
	_, err := fmt.Fprintf(p.Out, "\nbucket %q %s (%v)\n", report.Bucket, fits, report.Took.Round(10*time.Millisecond))
	return err
}
