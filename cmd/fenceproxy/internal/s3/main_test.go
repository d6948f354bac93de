package s3

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, Command) }
