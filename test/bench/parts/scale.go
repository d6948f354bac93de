package parts

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/machine"
	"github.com/fenceproxy/fenceproxy/test/bench/results"
	"github.com/fenceproxy/fenceproxy/test/bench/scene"
	"github.com/fenceproxy/fenceproxy/test/bench/turns"
)

// groups of clients, each with a proxy, or a share in one.
const groups = 4

// perGroup is how many clients a group has.
const perGroup = 4

// share is how much of a CPU a proxy may have where it is to be what limits: so
// little that the machine has room for all.
const share = 0.05

// benchScale is one, two and four proxies side by side, on one database and on one
// bucket.
func benchScale(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	for _, measure := range []func(b *bed.Bed, s Size) ([]results.Row, []string, error){scalePostgres, scaleS3} {
		err := bed.Run(b.Context(), func(b *bed.Bed) error {
			more, versions, err := measure(b, s)
			rows, of = append(rows, more...), append(of, versions...)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return rows, of, nil
}

func groupToken(group int) string { return fmt.Sprintf("ft1:x:1:h:i:group-%d", group) }

// proxies says how many, in words.
func proxies(n int) string {
	switch n {
	case 0:
		return "direct"
	case 1:
		return "1 proxy"
	}
	return fmt.Sprint(n, " proxies")
}

// throttled runs f while each of the processes may have but a share of a CPU. It
// says whether it could.
func throttled(pids []int, f func() error) error {
	for _, pid := range pids {
		release, err := machine.Throttle(pid, share)
		if err != nil {
			bed.Say("without the rounds in which the proxies limit: %v", err)
			return nil
		}
		defer release()
	}
	return f()
}

func scalePostgres(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	db, script := scene.StartDatabase(b, false), pgbenchScript(b)
	b.Must(db.Fill(b.Context()))
	var doors []scene.Door
	var pids []int
	for group := range groups {
		door := db.Proxy(b, "read-only", "")
		door.Token = groupToken(group)
		_, err := scene.Pgbench(b.Context(), door, 0, "-c", "1", "-f", script) // claims it
		b.Must(err)
		doors, pids = append(doors, door), append(pids, door.PID)
	}
	way := func(n int, own bool) turns.Way {
		return turns.Way{
			Name: proxies(n), Processes: db.Processes(doors[:n]...),
			Run: func(ctx context.Context, turn time.Duration) (turns.Done, error) {
				return together(func(group int) (turns.Done, error) {
					door := scene.Door{URL: db.URL}
					if n > 0 {
						door = doors[group%n]
						door.Token = groupToken(0)
						if own {
							door.Token = groupToken(group)
						}
					}
					return scene.Pgbench(ctx, door, turn, "-c", strconv.Itoa(perGroup), "-f", script)
				})
			},
		}
	}
	rows, err = scaleRows(b, s.plan(5, 2*time.Second), "Postgres", pids, way)
	return rows, []string{db.Version}, err
}

// together lets all groups work at once, and adds up what they have done.
func together(work func(group int) (turns.Done, error)) (turns.Done, error) {
	var each errgroup.Group
	parts := make([]turns.Done, groups)
	for group := range groups {
		each.Go(func() (err error) { parts[group], err = work(group); return err })
	}
	err := each.Wait()
	var all turns.Done
	for _, part := range parts {
		all.Operations += part.Operations
		all.Took = max(all.Took, part.Took)
		all.Client += part.Client
	}
	return all, err
}

// scaleRows are those of one resource for all groups, of one for each, and of one
// for each while the proxies are what limits.
func scaleRows(b *bed.Bed, plan turns.Plan, bench string, pids []int, way func(n int, own bool) turns.Way) (rows []results.Row, err error) {
	for _, own := range []bool{false, true} {
		row := results.Row{Bench: bench, Case: "one resource"}
		if own {
			row.Case = "resources of their own"
		}
		if err := turns.Take(b.Context(), plan, &row, []turns.Way{way(0, own), way(1, own), way(2, own), way(4, own)}); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	err = throttled(pids, func() error {
		row := results.Row{Bench: bench, Case: "proxies that limit"}
		rows = append(rows, row)
		return turns.Take(b.Context(), plan, &rows[len(rows)-1], []turns.Way{way(1, true), way(2, true), way(4, true)})
	})
	return rows, err
}

func scaleS3(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	store := scene.StartStore(b)
	direct := store.Direct(b)
	var gates []scene.Gate // of the proxies, under the token of all
	var own [][]scene.Gate // of the proxies, under the token of each group
	var pids []int
	for range groups {
		proxy := store.Proxy(b)
		gate := store.Through(b, proxy, groupToken(0))
		if len(gates) > 0 {
			gate.Bucket = gates[0].Bucket
		}
		under := make([]scene.Gate, groups)
		for group := range groups {
			under[group] = store.As(b, gate, groupToken(group))
		}
		gates, own, pids = append(gates, gate), append(own, under), append(pids, proxy.PID)
	}
	values := payloads(groups*perGroup, smallObject)
	way := func(n int, separate bool) turns.Way {
		return turns.Way{
			Name: proxies(n), Processes: store.Processes(gates[:n]...),
			Run: func(ctx context.Context, turn time.Duration) (turns.Done, error) {
				return turns.Load(ctx, groups*perGroup, turn, func(ctx context.Context, worker int) error {
					gate, group := direct, worker/perGroup
					// A key that two proxies write in turn must be looked at anew.
					key := fmt.Sprint("k", n, separate, worker)
					if n > 0 {
						gate = gates[group%n]
						if separate {
							gate = own[group%n][group]
						}
					}
					return gate.Put(ctx, key, fresh(values[worker]), smallObject)
				})
			},
		}
	}
	plan := s.plan(5, 2*time.Second)
	if rows, err = scaleRows(b, plan, "S3", pids, way); err != nil {
		return nil, nil, err
	}
	row := results.Row{Bench: "S3", Case: "one key, through each in turn"}
	inTurn := func(n int) turns.Way {
		i := 0
		return turns.Way{
			Name: proxies(n), Processes: store.Processes(gates[:n]...),
			Run: func(ctx context.Context, turn time.Duration) (turns.Done, error) {
				return turns.Load(ctx, 1, turn, func(ctx context.Context, _ int) error {
					i++
					return gates[i%n].Put(ctx, fmt.Sprint("in-turn-", n), fresh(values[0]), smallObject)
				})
			},
		}
	}
	err = turns.Take(b.Context(), plan, &row, []turns.Way{inTurn(1), inTurn(2), inTurn(4)})
	return append(rows, row), []string{scene.VersityVersion(b)}, err
}
