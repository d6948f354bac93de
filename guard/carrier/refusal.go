package carrier

import (
	"errors"
	"net/http"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Refusal is how one reason for a refusal is told on each way back.
type Refusal struct {
	// Reason is the sentinel of package guard.
	Reason error
	// SQLState is its SQLSTATE in Postgres.
	SQLState string
	// Status and Code are its HTTP status and its error code in S3 and HTTP.
	Status int
	Code   string
}

// CodeUnavailable is the code, with status 503, of an answer over HTTP that is
// no refusal: the fence could not be asked, or an older token is still inside.
// Nothing was written.
const CodeUnavailable = "FenceUnavailable"

// Refusals returns all of them, one for each sentinel. Over S3 nobody sees
// FenceTokenUnclaimed: the proxy claims for its client.
func Refusals() []Refusal {
	return []Refusal{
		{guard.ErrStale, "TK001", http.StatusPreconditionFailed, "FenceTokenStale"},
		{guard.ErrDuplicate, "TK002", http.StatusPreconditionFailed, "FenceTokenDuplicate"},
		{guard.ErrForeign, "TK003", http.StatusPreconditionFailed, "FenceTokenForeign"},
		{guard.ErrUnclaimed, "TK004", http.StatusPreconditionFailed, "FenceTokenUnclaimed"},
		{guard.ErrNoToken, "TK005", http.StatusForbidden, "FenceTokenMissing"},
		{guard.ErrMalformed, "TK006", http.StatusBadRequest, "FenceTokenMalformed"},
		{guard.ErrUnsupported, "TK007", http.StatusNotImplemented, "FenceUnsupported"},
		{guard.ErrReadOnly, "TK008", http.StatusForbidden, "FenceTokenReadOnly"},
	}
}

// RefusalOf returns how err travels, and false if err is no refusal.
func RefusalOf(err error) (Refusal, bool) {
	return find(func(r Refusal) bool { return errors.Is(err, r.Reason) })
}

// RefusalBySQLState returns the refusal that Postgres reports as state, and
// false if state is another error's.
func RefusalBySQLState(state string) (Refusal, bool) {
	return find(func(r Refusal) bool { return r.SQLState == state })
}

// RefusalByCode returns the refusal whose code S3 and HTTP report, and false
// if code is another error's.
func RefusalByCode(code string) (Refusal, bool) {
	return find(func(r Refusal) bool { return r.Code == code })
}

func find(match func(Refusal) bool) (Refusal, bool) {
	for _, r := range Refusals() {
		if match(r) {
			return r, true
		}
	}
	return Refusal{}, false
}
