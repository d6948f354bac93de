package check

import (
	"cmp"
	"slices"

	"github.com/fenceproxy/fenceproxy/test/chaos/history"
)

// marked finds claims that the mark has forgotten (I6): it never goes down, so at
// the end no number that was claimed is above it, and nobody who comes later passes
// a claim with a lower one.
func marked(k *known) (found []Violation) {
	if k.Mark == nil {
		return nil
	}
	for _, op := range k.Ops {
		top := k.Mark.Writer
		if op.Shared {
			top = k.Mark.Reader
		}
		if claimed(op) && op.Number > top {
			found = append(found, k.violated("I6", op, "the mark is %+v in the end, and there was %v", *k.Mark, op))
		}
	}
	return append(found, tooLate(k)...)
}

// tooLate finds claims that were passed, and had not begun when one of a number
// that keeps them out had returned. Only the first of a holder's counts: what it
// has claimed already, a proxy that has not heard of others remembers.
func tooLate(k *known) (found []Violation) {
	ops := slices.DeleteFunc(slices.Clone(k.Ops), func(op history.Op) bool { return op.Kind != history.Claim })
	returned := slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool { return !claimed(op) })
	slices.SortFunc(returned, func(a, b history.Op) int { return cmp.Compare(a.Ended, b.Ended) })
	history.InOrder(ops)
	var writer, reader history.Op // of the highest number
	came := map[string]bool{}
	for _, op := range ops {
		for ; len(returned) > 0 && returned[0].Ended < op.Began; returned = returned[1:] {
			switch next := returned[0]; {
			case next.Shared && next.Number > reader.Number:
				reader = next
			case !next.Shared && next.Number > writer.Number:
				writer = next
			}
		}
		first := !came[op.Holder]
		came[op.Holder] = true
		by := writer
		if !op.Shared && reader.Number > writer.Number {
			by = reader
		}
		if first && claimed(op) && op.Number < by.Number {
			found = append(found, k.violated("I6", op, "%v was passed, and began after %v", op, by))
		}
	}
	return found
}
