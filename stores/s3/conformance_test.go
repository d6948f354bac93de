package s3store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/guardtest"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/stores/s3/internal/request"
	"github.com/fenceproxy/fenceproxy/stores/s3/layout"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, s *testenv.S3Server) {
		t.Parallel()
		e := newEnv(t, s, Config{})
		guardtest.Exercise(t, &target{env: e, Store: e.store})
	})
}

// target is a key for each resource that holds a list of values, read,
// modified and written under the ETag that was read. A claim writes the key:
// from then on it is closed to older tokens.
type target struct {
	*env
	*Store
	names atomic.Int64
}

var _ interface {
	guardtest.Target
	guardtest.Marker
	guardtest.Adopter
} = (*target)(nil)

func (g *target) NewResource(context.Context) (string, error) {
	return fmt.Sprintf("resource %d / ü", g.names.Add(1)), nil
}

func (g *target) Claim(ctx context.Context, t guard.Token) error {
	if err := g.Store.Claim(ctx, t); err != nil || t.Mode == guard.Shared {
		return err
	}
	return g.modify(ctx, t, func(values []string) []string { return values })
}

func (g *target) Write(ctx context.Context, t guard.Token, value string) error {
	return g.modify(ctx, t, func(values []string) []string { return append(values, value) })
}

// modify does it again when another write was first, as callers have to.
func (g *target) modify(ctx context.Context, t guard.Token, change func([]string) []string) error {
	for try := 0; ; try++ {
		err := g.modifyOnce(ctx, t, change)
		if !errors.Is(err, ErrPrecondition) && !errors.Is(err, ErrConflict) {
			return err
		}
		if guard.OutcomeOf(err) != guard.NotApplied {
			return fmt.Errorf("lost to another write with outcome %v: %w", guard.OutcomeOf(err), err)
		}
		if err := request.Pause(ctx, try+2); err != nil {
			return guard.WithOutcome(err, guard.NotApplied)
		}
	}
}

func (g *target) modifyOnce(ctx context.Context, t guard.Token, change func([]string) []string) error {
	key := keyOf(t.Resource)
	o := PutOptions{IfNoneMatch: "*"}
	var values []string
	if t.Validate() != nil { // the write is what is to be refused
		_, err := g.Put(ctx, t, key, nil, 0, o)
		return err
	}
	object, err := g.Get(ctx, t, key, GetOptions{})
	if err == nil {
		err = json.NewDecoder(object).Decode(&values)
		o = PutOptions{IfMatch: object.Info.ETag}
		object.Close()
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return notApplied(err)
	}
	data, err := json.Marshal(change(values))
	if err != nil {
		return err
	}
	_, err = g.Put(ctx, t, key, strings.NewReader(string(data)), int64(len(data)), o)
	return err
}

func keyOf(resource string) string {
	return "values/" + layout.MarkKey(resource)[len(".fence/marks/"):]
}

// Written reads past the fence.
func (g *target) Written(ctx context.Context, resource string) ([]string, error) {
	object, err := g.bare.GetObject(ctx, g.bucket, keyOf(resource), minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer object.Close()
	data, err := io.ReadAll(object)
	if request.IsAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var values []string
	return values, json.Unmarshal(data[layout.HeaderSize:], &values)
}

// 32 writers, 200 increments each, under one token and the condition of each:
// none is lost, and none refused (I3).
func TestCounter(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testenv.S3(t), Config{})
	mustClaim(t, e.store, writer(33))
	mustPut(t, e.store, writer(33), "counter", "0")
	stores := []*Store{e.store, e.newStore(t, Config{})} // as two processes
	const writers, increments = 32, 200
	errs := make(chan error, writers)
	for i := range writers {
		go func() { errs <- increment(t.Context(), stores[i%2], writer(33), increments) }()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	expectValue(t, e.store, writer(33), "counter", fmt.Sprint(writers*increments))
}

func increment(ctx context.Context, s *Store, token guard.Token, times int) error {
	for done, try := 0, 0; done < times; try++ {
		object, err := s.Get(ctx, token, "counter", GetOptions{})
		if err != nil {
			return err
		}
		var n int
		_, err = fmt.Fscan(object, &n)
		object.Close()
		if err != nil {
			return err
		}
		value := fmt.Sprint(n + 1)
		_, err = s.Put(ctx, token, "counter", strings.NewReader(value), int64(len(value)), PutOptions{IfMatch: object.Info.ETag})
		switch {
		case err == nil:
			done, try = done+1, 0
		case !errors.Is(err, ErrPrecondition) || guard.OutcomeOf(err) != guard.NotApplied:
			return err
		default:
			if err := request.Pause(ctx, try+4); err != nil {
				return err
			}
		}
	}
	return nil
}
