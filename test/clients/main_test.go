// Package clients_test runs programs as their users have them, unmodified,
// through the proxy: psql and its companions, and the drivers of several
// languages.
package clients_test

import (
	"os"
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }
