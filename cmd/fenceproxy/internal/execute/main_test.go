package execute

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/migrate"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/s3"
)

func TestMain(m *testing.M) { clitest.Main(m, Command, Warden, migrate.Command, s3.Command) }
