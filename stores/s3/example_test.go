package s3store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/fenceproxy/fenceproxy/guard"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

// The holder of a lock claims right after the lock was granted, and writes
// under the lock's token.
func Example() { //nolint:testableexamples // it cannot start a server: TestExamples runs what it calls
	token := guard.Token{Resource: "reports", Number: 34, Mode: guard.Exclusive} // lease.Token()
	client, err := minio.New("s3.example", &minio.Options{Creds: credentials.NewEnvAWS(), Secure: true, MaxRetries: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := s3store.New(client, s3store.Config{Bucket: "app"})
	if err != nil {
		fmt.Println(err)
		return
	}
	switch err := publish(context.Background(), store, token, "all is well"); guard.OutcomeOf(err) {
	case guard.Applied:
		fmt.Println("published")
	case guard.Refused:
		fmt.Println("the lock was lost, nothing was written:", err)
	case guard.NotApplied:
		fmt.Println("nothing was written:", err)
	case guard.Unknown:
		fmt.Println("look before you try again:", err)
	}
}

func publish(ctx context.Context, store *s3store.Store, token guard.Token, report string) error {
	if err := store.Claim(ctx, token); err != nil { // right after the lock was granted
		return err
	}
	_, err := store.Put(ctx, token, "reports/today.txt", strings.NewReader(report), int64(len(report)),
		s3store.PutOptions{ContentType: "text/plain"})
	if errors.Is(err, guard.ErrStale) {
		return fmt.Errorf("the lock went to somebody else, and nothing was written: %w", err)
	}
	return err
}

// What is changed by what was read names the ETag that was read (I9): a write of
// an old holder may still arrive before the first one of a new holder.
func ExampleStore_Put_readModifyWrite() { //nolint:testableexamples // the same
	var store *s3store.Store
	var token guard.Token
	if err := countUp(context.Background(), store, token); err != nil {
		fmt.Println(err)
	}
}

func countUp(ctx context.Context, store *s3store.Store, token guard.Token) error {
	for {
		n, o := 0, s3store.PutOptions{IfNoneMatch: "*"}
		object, err := store.Get(ctx, token, "reports/count.json", s3store.GetOptions{})
		if err == nil {
			err = json.NewDecoder(object).Decode(&n)
			o = s3store.PutOptions{IfMatch: object.Info.ETag}
			object.Close()
		}
		if err != nil && !errors.Is(err, s3store.ErrNotFound) {
			return err
		}
		text := fmt.Sprint(n + 1)
		_, err = store.Put(ctx, token, "reports/count.json", strings.NewReader(text), int64(len(text)), o)
		if !errors.Is(err, s3store.ErrPrecondition) { // else it has changed since, and nothing was written
			return err
		}
	}
}
