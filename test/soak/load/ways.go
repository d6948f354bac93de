package load

import (
	"context"
	"math/rand/v2"

	"github.com/fenceproxy/fenceproxy/guard"
)

// way is a way in, as all hands of a process use it.
type way interface {
	// enter claims a token.
	enter(ctx context.Context, token guard.Token) (tenure, error)
	close()
}

// tenure is one holder's use of a way.
type tenure interface {
	write(ctx context.Context, dice *rand.Rand) error
	// abandon begins a write and leaves it without its end.
	abandon(ctx context.Context, dice *rand.Rand) error
	leave()
}

// ways are all of them.
var ways = [...]struct {
	name string
	open func(context.Context, Job) (way, error)
}{
	{"pgstore", openPGStore},
	{"pgproxy", openPGProxy},
	{"s3store", openS3Store},
	{"s3proxy", openS3Proxy},
}

// Ways are the names of the ways in, in the order of Counts.ByWay.
func Ways() []string {
	var names []string
	for _, w := range ways {
		names = append(names, w.name)
	}
	return names
}
