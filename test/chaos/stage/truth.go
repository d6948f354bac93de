package stage

import (
	"context"
	"slices"

	"github.com/fenceproxy/fenceproxy/guard"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
	"github.com/fenceproxy/fenceproxy/test/chaos/check"
	"github.com/fenceproxy/fenceproxy/test/chaos/history"
	"github.com/fenceproxy/fenceproxy/test/chaos/ways"
	"github.com/fenceproxy/fenceproxy/test/chaos/worker"
)

// cases puts together what the registers remember and what writers were told.
func (s *Stage) cases(resources []worker.Resource, ops []history.Op) []check.Case {
	s.tb.Helper()
	byResource := map[string][]history.Op{}
	var faults []history.Op
	for _, op := range ops {
		if op.Kind == history.Fault {
			faults = append(faults, op)
			continue
		}
		byResource[op.Resource] = append(byResource[op.Resource], op)
	}
	all := make([]check.Case, 0, len(resources))
	for _, r := range resources {
		c := check.Case{Resource: r.Name, Ops: byResource[r.Name], Faults: faults, ClaimLimit: claimLimit}
		if ways.InS3(r.Ways[0]) {
			c.From = check.Touched
			last := s.object(r)
			c.Now, c.Applied = last.State, check.Chain(last, c.Ops)
		} else {
			c.Applied, c.Now = s.rows(r)
		}
		all = append(all, c)
	}
	return all
}

func (s *Stage) rows(r worker.Resource) ([]history.Entry, history.State) {
	s.tb.Helper()
	conn := s.connect()
	defer conn.Close(context.Background())
	all, now, err := r.Register.Applied(s.tb.Context(), conn)
	if err != nil {
		s.tb.Fatal(err)
	}
	return all, now
}

// object reads what an object holds, past all links and, as far as there is one,
// without a token.
func (s *Stage) object(r worker.Resource) history.Entry {
	s.tb.Helper()
	client, end, err := s.direct.S3.Client()
	if err != nil {
		s.tb.Fatal(err)
	}
	defer end()
	var e history.Entry
	if slices.Contains(r.Ways, ways.S3ContentMatch) || slices.Contains(r.Ways, ways.S3Unchecked) {
		e, _, err = ways.StatBare(s.tb.Context(), client, s.direct.S3.Bucket, r.Register.Key)
	} else {
		var store *s3store.Store
		if store, err = s3store.New(client, s3store.Config{Bucket: s.direct.S3.Bucket, ReadWithoutToken: true}); err != nil {
			s.tb.Fatal(err)
		}
		e, _, err = ways.ReadObject(s.tb.Context(), store, guard.Token{}, r.Register.Key)
	}
	if err != nil {
		s.tb.Fatal(err)
	}
	return e
}
