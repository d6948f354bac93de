package parts

import (
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/fenceproxy/fenceproxy/test/bench/results"
	"github.com/fenceproxy/fenceproxy/test/bench/rivals"
)

// benchLocks is the locks beside those of others.
func benchLocks(b *bed.Bed, s Size) (rows []results.Row, of []string, err error) {
	return rivals.Run(b, s.Quick)
}
