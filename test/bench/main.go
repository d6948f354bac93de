// Command bench measures this project beside others and writes docs/benchmarks.md.
//
// Each part leaves its results in docs/benchmarks/<part>.json, every round of it.
// The page and its plots are made of those, so that one part can be measured anew,
// and the page be written anew without measuring anything. Quick results are for
// trying; they, and the page made of them, go into
// .bin/bench-quick.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/page"
	"github.com/fenceproxy/fenceproxy/test/bench/parts"
	"github.com/fenceproxy/fenceproxy/test/bench/scene"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	wanted := flag.String("part", "", "only these parts, by commas")
	quick := flag.Bool("quick", false, "few and short rounds, for trying: results go into .bin/bench-quick")
	publish := flag.Bool("publish", false, "quick results go into docs too")
	render := flag.Bool("render", false, "measure nothing, only write the page")
	root := flag.String("root", ".", "the repository")
	to := flag.String(scene.RelayFlag, "", "be a relay to this address, and nothing else: what proxies are measured by")
	flag.Parse()
	if *to != "" {
		return scene.RunRelay(ctx, *to)
	}
	docs := filepath.Join(*root, "docs")
	if *quick && !*publish {
		docs = filepath.Join(*root, ".bin", "bench-quick")
	}
	var failed error
	if !*render {
		chosen, err := choose(*wanted)
		if err != nil {
			return err
		}
		failed = measure(ctx, chosen, parts.Size{Quick: *quick, Root: *root}, filepath.Join(docs, "benchmarks"))
	}
	return errors.Join(failed, page.Write(docs, filepath.Join(*root, "docs"), parts.Names()))
}

func choose(names string) ([]parts.Part, error) {
	all := parts.All()
	if names == "" {
		return all, nil
	}
	var chosen []parts.Part
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(p parts.Part) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no part %q: there are %s", name, strings.Join(parts.Names(), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// measure goes on with the others when a part fails.
func measure(ctx context.Context, chosen []parts.Part, size parts.Size, dir string) (failed error) {
	for i, p := range chosen {
		bed.Say("%s: part %d of %d", p.Name, i+1, len(chosen))
		result, err := p.Run(ctx, size)
		if err == nil {
			err = result.Save(dir)
		}
		if err != nil {
			bed.Say("%s failed: %v", p.Name, err)
			failed = errors.Join(failed, err)
			if ctx.Err() != nil {
				return failed
			}
			continue
		}
		bed.Say("%s took %v", p.Name, time.Duration(result.Seconds)*time.Second)
	}
	return failed
}
