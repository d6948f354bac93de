package plant_test

import (
	"go/parser"
	"go/token"
	"testing"

	"go.uber.org/goleak"

	"github.com/fenceproxy/fenceproxy/test/chaos/plant"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each hole is where the code is that it takes out, and leaves a Go file.
func TestHolesFollowTheCode(t *testing.T) {
	t.Parallel()
	for _, hole := range plant.Holes() {
		sources, err := hole.Sources("../../..")
		if err != nil {
			t.Errorf("%s: %v", hole.Name, err)
		}
		if (len(sources) == 0) != (hole.In == plant.Nothing) || (hole.SQL == "") != (hole.In != plant.Nothing) {
			t.Errorf("%s: %d files are changed, SQL %q", hole.Name, len(sources), hole.SQL)
		}
		for path, text := range sources {
			if _, err := parser.ParseFile(token.NewFileSet(), path, text, 0); err != nil {
				t.Errorf("%s: %v", hole.Name, err)
			}
		}
	}
}
