package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestEnded(t *testing.T) {
	t.Parallel()
	why := errors.New("why")
	for name, ctx := range map[string]func() context.Context{
		"cancelled": func() context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx
		},
		"with a cause": func() context.Context {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(why)
			return ctx
		},
		"too late": func() context.Context {
			ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now(), why)
			t.Cleanup(cancel)
			return ctx
		},
	} {
		ctx := ctx()
		if err := Ended(ctx); !errors.Is(err, ctx.Err()) || !errors.Is(err, context.Cause(ctx)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*MaxPause)
		defer cancel()
		var p Pauses
		for want := MinPause; ; want = min(2*want, MaxPause) {
			start := time.Now()
			done := p.Pause(ctx)
			took := time.Since(start)
			if !done {
				break
			}
			if took < want/2 || took > want*3/2 {
				t.Fatalf("pause of %v, want about %v", took, want)
			}
		}
		if ctx.Err() == nil {
			t.Error("a pause ended before its time")
		}
	})
}
