package stage

import (
	"context"

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
		if !ways.Control(r.Ways[0]) {
			c.Mark = s.mark(r)
		}
		all = append(all, c)
	}
	return all
}

// mark is what a resource remembers, past all links.
func (s *Stage) mark(r worker.Resource) *guard.Mark {
	s.tb.Helper()
	var mark guard.Mark
	var err error
	if ways.InS3(r.Ways[0]) {
		store, end := s.store()
		defer end()
		mark, err = store.Mark(s.tb.Context(), r.Name)
	} else {
		conn := s.connect()
		defer conn.Close(context.Background())
		err = conn.QueryRow(s.tb.Context(), "SELECT writer, reader FROM fence.marks WHERE resource = $1", r.Name).Scan(&mark.Writer, &mark.Reader)
	}
	if err != nil {
		s.tb.Fatalf("read mark of %s: %v", r.Name, err)
	}
	return &mark
}

// store is one on the bucket, past all links, that reads without a token.
func (s *Stage) store() (*s3store.Store, func()) {
	s.tb.Helper()
	client, end, err := s.direct.S3.Client()
	if err != nil {
		s.tb.Fatal(err)
	}
	store, err := s3store.New(client, s3store.Config{Bucket: s.direct.S3.Bucket, ReadWithoutToken: true})
	if err != nil {
		s.tb.Fatal(err)
	}
	return store, end
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
	if !ways.Control(r.Ways[0]) {
		store, end := s.store()
		defer end()
		e, _, err := ways.ReadObject(s.tb.Context(), store, guard.Token{}, r.Register.Key)
		if err != nil {
			s.tb.Fatal(err)
		}
		return e
	}
	client, end, err := s.direct.S3.Client()
	if err != nil {
		s.tb.Fatal(err)
	}
	defer end()
	e, _, err := ways.StatBare(s.tb.Context(), client, s.direct.S3.Bucket, r.Register.Key)
	if err != nil {
		s.tb.Fatal(err)
	}
	return e
}
