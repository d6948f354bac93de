package ways

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/fenceproxy/fenceproxy/guard"
	"github.com/fenceproxy/fenceproxy/guard/carrier"
)

// s3proxyWay goes in by a client through a proxy, a new client for each holder.
type s3proxyWay struct {
	proxies []Bucket
	dice    *rand.Rand
	dial    func(Bucket, guard.Token) (client, error)
	inParts bool
}

func openS3Proxy(dial func(a Access) func(Bucket, guard.Token) (client, error), inParts bool) func(Access, *rand.Rand) Way {
	return func(a Access, dice *rand.Rand) Way { return &s3proxyWay{a.S3Proxies, dice, dial(a), inParts} }
}

func (w *s3proxyWay) Close() {}

// Enter reads the object: the proxy claims a token when it sees it first.
func (w *s3proxyWay) Enter(ctx context.Context, token guard.Token, r Register) (Tenure, error) {
	c, err := w.dial(w.proxies[w.dice.IntN(len(w.proxies))], token)
	if err != nil {
		return nil, err
	}
	t := &objectTenure{client: c, key: r.Key, dice: w.dice, inParts: w.inParts}
	if _, err := t.Read(ctx); err != nil {
		t.Leave()
		return nil, err
	}
	return t, nil
}

// answeredS3 is what an answer of an S3 server, of a status and a code, tells of a
// write. What is answered below 500 was not carried out.
func answeredS3(status int, code string, err error) error {
	r, ours := carrier.RefusalByCode(code)
	switch {
	case ours:
		return errors.Join(&guard.RefusedError{Reason: r.Reason}, guard.WithOutcome(err, guard.Refused))
	case status >= 400 && status < 500, code == carrier.CodeUnavailable:
		return guard.WithOutcome(err, guard.NotApplied)
	}
	return guard.WithOutcome(err, guard.Unknown)
}
