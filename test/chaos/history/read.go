package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Load reads all histories of a folder and returns their Ops in the order in
// which they began.
func Load(dir string) ([]Op, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+extension))
	if err != nil {
		return nil, err
	}
	var ops []Op
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		if ops, err = decode(ops, text); err != nil {
			return nil, fmt.Errorf("read history %s: %w", filepath.Base(path), err)
		}
	}
	InOrder(ops)
	return ops, nil
}

// decode appends the Ops of one history to ops. The last line of an ID counts. A
// last line without its end is of a process that was killed as it wrote it.
func decode(ops []Op, text []byte) ([]Op, error) {
	place := map[string]int{}
	for n := 1; len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, []byte{'\n'})
		if !whole {
			break
		}
		text = rest
		var op Op
		if err := json.Unmarshal(line, &op); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if i, known := place[op.ID]; known {
			ops[i] = op
			continue
		}
		place[op.ID] = len(ops)
		ops = append(ops, op)
	}
	return ops, nil
}
