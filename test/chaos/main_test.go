package chaos_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/test/chaos/worker"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == worker.Arg {
		if err := worker.Work(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testenv.Run(m))
}
