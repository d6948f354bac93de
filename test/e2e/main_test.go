// Package e2e_test has the tests that span packages: a lock, a store and a
// database together, as their users put them together.
package e2e_test

import (
	"os"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }
