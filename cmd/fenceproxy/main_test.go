package main

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, commands()...) }
