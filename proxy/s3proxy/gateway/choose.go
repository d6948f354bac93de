package gateway

import (
	"errors"

	"github.com/fenceproxy/fenceproxy/guard"
)

// Which of several tokens a request is done under depends on whom the key belongs to,
// and the store remembers that: asking would cost a request more each time. If the key
// has gone to another resource since, the one that is chosen is refused, and whoever has
// both is not to be told so (I3).

func isNoToken(err error) bool { return errors.Is(err, guard.ErrNoToken) }

// write does act, which reads so many bytes of the body, under the token to write key
// with. It may be done twice if they are at most smallBody, and the first time nothing
// was written.
func (x *exchange) write(key string, size int64, act func(guard.Token) error) error {
	token, err := x.writeToken(key, size)
	asked := err == nil
	if asked {
		err = act(token)
	}
	if asked && size > smallBody {
		return err
	}
	other, ok := x.instead(key, token, err)
	if !ok {
		return err
	}
	if err := x.mayWrite(other, key, size); err != nil {
		return err
	}
	return act(other)
}

// read does act under the token to read key with.
func (x *exchange) read(key string, act func(guard.Token) error) error {
	token, err := x.readToken(key)
	if err == nil {
		err = act(token)
	}
	if other, ok := x.instead(key, token, err); ok {
		return act(other)
	}
	return err
}

// instead returns the token to use in the place of one that was refused with err, if
// there is another one.
func (x *exchange) instead(key string, refused guard.Token, err error) (guard.Token, bool) {
	written := guard.OutcomeOf(err) == guard.Unknown // or it may be
	if len(x.tokens) < 2 || !isNoToken(err) || written {
		return refused, false
	}
	other, err := x.store.ChooseAgain(x.ctx(), x.tokens, key)
	return other, err == nil && other != refused
}
