package probe

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Result is what came of a check.
type Result int

const (
	// Unknown: it could not be tried, or the answer tells nothing.
	Unknown Result = iota
	// Honoured: the store did what it was asked.
	Honoured
	// Violated: it did not.
	Violated
)

// String is "unknown", "honoured" or "violated".
func (r Result) String() string {
	switch r {
	case Honoured:
		return "honoured"
	case Violated:
		return "violated"
	default:
		return "unknown"
	}
}

// MarshalText writes what String returns.
func (r Result) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Row is one thing that was tried.
type Row struct {
	// Name is the check's, stable from version to version: "PutObject/create-existing".
	Name string `json:"name"`
	// Operation is S3's name of what was asked of the store.
	Operation string `json:"operation"`
	// Asked says what, and what should come of it.
	Asked string `json:"asked"`
	// Answer is what the store answered, in short.
	Answer string `json:"answer"`
	// Result is what came of it.
	Result Result `json:"result"`
	// Framed says that the framed layout rests on it.
	Framed bool `json:"framed"`
}

// Report is what a probe found out.
type Report struct {
	// Endpoint is the store's URL.
	Endpoint string
	// Bucket is the one that was probed.
	Bucket string
	// Rows are all that was tried, in turn.
	Rows []Row
	// Left are keys of what could not be removed; that of the run's folder if what
	// is in there could not be seen.
	Left []string
	// Took is how long it took.
	Took time.Duration
}

// MarshalJSON writes the report as one object:
//
//	{"endpoint":"https://s3.example","bucket":"b","framed":true,"milliseconds":812,
//	 "checks":[{"name":"PutObject/create-existing","operation":"PutObject","asked":"…",
//	  "answer":"412 PreconditionFailed","result":"honoured","framed":true}],"left":[]}
func (r *Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Endpoint     string   `json:"endpoint"`
		Bucket       string   `json:"bucket"`
		Framed       bool     `json:"framed"`
		Milliseconds int64    `json:"milliseconds"`
		Checks       []Row    `json:"checks"`
		Left         []string `json:"left"`
	}{
		r.Endpoint, r.Bucket, r.Framed() == nil, r.Took.Milliseconds(),
		append([]Row{}, r.Rows...), append([]string{}, r.Left...),
	})
}

// Framed returns nil if the bucket can hold framed objects, else an
// *UnfitError. A report without rows proves nothing.
func (r *Report) Framed() error {
	unfit := &UnfitError{Bucket: r.Bucket}
	needed := 0
	for _, row := range r.Rows {
		if !row.Framed {
			continue
		}
		needed++
		if row.Result != Honoured {
			unfit.Rows = append(unfit.Rows, row)
		}
	}
	if needed > 0 && len(unfit.Rows) == 0 {
		return nil
	}
	return unfit
}

// UnfitError says that a bucket cannot be fenced. It matches
// guard.ErrUnsupported.
type UnfitError struct {
	// Bucket is the bucket.
	Bucket string
	// Rows are what the layout rests on and the store does not do, or was not
	// seen to do.
	Rows []Row
}

// Error names the bucket, and each row with its answer.
func (e *UnfitError) Error() string {
	why := make([]string, 0, len(e.Rows))
	for _, row := range e.Rows {
		why = append(why, fmt.Sprintf("%s (%s: %s)", row.Name, row.Result, row.Answer))
	}
	if len(why) == 0 {
		why = append(why, "nothing was tried")
	}
	return fmt.Sprintf("bucket %q %v: %s", e.Bucket, guard.ErrUnsupported, strings.Join(why, ", "))
}

// Unwrap returns guard.ErrUnsupported.
func (e *UnfitError) Unwrap() error { return guard.ErrUnsupported }
