package serve

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/migrate"
)

func TestMain(m *testing.M) { clitest.Main(m, Command, migrate.Command) }
