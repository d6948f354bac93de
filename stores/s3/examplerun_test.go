package s3store_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/internal/testenv"
	s3store "github.com/fenceproxy/fenceproxy/stores/s3"
)

func TestExamples(t *testing.T) {
	t.Parallel()
	server := testenv.S3(t)
	store, err := s3store.New(server.Client(t), s3store.Config{Bucket: server.Bucket(t)})
	if err != nil {
		t.Fatal(err)
	}
	token := guard.Token{Resource: "reports", Number: 34, Mode: guard.Exclusive}
	for range 2 {
		if err := errors.Join(publish(t.Context(), store, token, "all is well"), countUp(t.Context(), store, token)); err != nil {
			t.Error(err)
		}
	}
	object, err := store.Get(t.Context(), token, "reports/count.json", s3store.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	var n int
	if err := json.NewDecoder(object).Decode(&n); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	token.Number--
	err = publish(t.Context(), store, token, "late")
	if !errors.Is(err, guard.ErrStale) || !strings.Contains(err.Error(), "stale token") {
		t.Errorf("a stale token: %v", err)
	}
}
