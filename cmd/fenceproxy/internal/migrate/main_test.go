package migrate

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/marks"
)

func TestMain(m *testing.M) { clitest.Main(m, Command, marks.Command) }
