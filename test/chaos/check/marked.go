package check

import "github.com/fenceproxy/fenceproxy/test/chaos/history"

// marked finds claims that the mark has forgotten (I6): it never goes down, so at
// the end no number that was claimed is above it.
func marked(k *known) (found []Violation) {
	if k.Mark == nil {
		return nil
	}
	for _, op := range k.Ops {
		top := k.Mark.Writer
		if op.Shared {
			top = k.Mark.Reader
		}
		if op.Kind == history.Claim && claimed(op) && op.Number > top {
			found = append(found, k.violated("I6", op, "the mark is %+v in the end, and there was %v", *k.Mark, op))
		}
	}
	return found
}
