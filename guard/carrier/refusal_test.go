package carrier_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

// The contract, once more and from the other side: clients compare with these.
var contract = []carrier.Refusal{
	{Reason: guard.ErrStale, SQLState: "TK001", Status: 412, Code: "FenceTokenStale"},
	{Reason: guard.ErrDuplicate, SQLState: "TK002", Status: 412, Code: "FenceTokenDuplicate"},
	{Reason: guard.ErrForeign, SQLState: "TK003", Status: 412, Code: "FenceTokenForeign"},
	{Reason: guard.ErrUnclaimed, SQLState: "TK004", Status: 412, Code: "FenceTokenUnclaimed"},
	{Reason: guard.ErrNoToken, SQLState: "TK005", Status: 403, Code: "FenceTokenMissing"},
	{Reason: guard.ErrMalformed, SQLState: "TK006", Status: 400, Code: "FenceTokenMalformed"},
	{Reason: guard.ErrUnsupported, SQLState: "TK007", Status: 501, Code: "FenceUnsupported"},
	{Reason: guard.ErrReadOnly, SQLState: "TK008", Status: 403, Code: "FenceTokenReadOnly"},
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	if n := len(carrier.Refusals()); n != len(contract) {
		t.Errorf("%d refusals, want %d", n, len(contract))
	}
	for _, want := range contract {
		err := fmt.Errorf("commit: %w", &guard.RefusedError{Reason: fmt.Errorf("x: %w", want.Reason)})
		if got, ok := carrier.RefusalOf(err); !ok || got != want {
			t.Errorf("%v: %+v", want.Reason, got)
		}
		if got, ok := carrier.RefusalBySQLState(want.SQLState); !ok || got != want {
			t.Errorf("%s: %+v", want.SQLState, got)
		}
		if got, ok := carrier.RefusalByCode(want.Code); !ok || got != want {
			t.Errorf("%s: %+v", want.Code, got)
		}
	}
}

func TestWhatIsNoRefusal(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, io.EOF, guard.WithOutcome(io.EOF, guard.NotApplied), errors.New("stale token")} {
		if got, ok := carrier.RefusalOf(err); ok {
			t.Errorf("%v is told as %+v", err, got)
		}
	}
	for _, text := range []string{"", "TK000", "TK009", "tk001", "40001", "PreconditionFailed", "fencetokenstale"} {
		if got, ok := carrier.RefusalBySQLState(text); ok {
			t.Errorf("SQLSTATE %q is %+v", text, got)
		}
		if got, ok := carrier.RefusalByCode(text); ok {
			t.Errorf("code %q is %+v", text, got)
		}
	}
}
