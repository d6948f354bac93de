package redislock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// errPolicy: this Redis must not be used.
var errPolicy = errors.New("not a place for locks")

// node is the client of the server that has key, and the server's name.
func (l *Locker) node(ctx context.Context, key string) (*goredis.Client, string, error) {
	switch client := l.client.(type) {
	case *goredis.ClusterClient:
		node, err := client.MasterForKey(ctx, key)
		if err != nil {
			return nil, "", err
		}
		return node, node.Options().Addr, nil
	case *goredis.Client:
		return client, "", nil
	}
	return nil, "", fmt.Errorf("client is a %T", l.client)
}

// trusts says, without asking it, whether the server that has key was found good.
func (l *Locker) trusts(ctx context.Context, key string) bool {
	if l.config.SkipPolicyCheck {
		return true
	}
	_, name, err := l.node(ctx, key)
	if err != nil {
		return false
	}
	_, ok := l.checked.Load(name)
	return ok
}

// checkPolicy refuses the server that has key if it could evict a lock or its
// number: the next holder would come too early, and the number be forgotten. A
// server that was found good is not asked again until it has lost its scripts,
// that is, until it is another one or was restarted.
func (l *Locker) checkPolicy(ctx context.Context, key string) error {
	if l.config.SkipPolicyCheck {
		return nil
	}
	node, name, err := l.node(ctx, key)
	if err != nil {
		return err
	}
	if _, ok := l.checked.Load(name); ok {
		return nil
	}
	const hint = "(Config.SkipPolicyCheck uses it all the same)"
	info, err := node.Info(ctx, "memory").Result()
	switch {
	case goredis.HasErrorPrefix(err, "NOPERM"), goredis.HasErrorPrefix(err, "unknown command"):
		return fmt.Errorf("%w: its maxmemory-policy cannot be read, since INFO is not permitted %s: %w", errPolicy, hint, err)
	case err != nil:
		return err
	}
	_, rest, ok := strings.Cut(info, "maxmemory_policy:")
	policy, _, _ := strings.Cut(rest, "\r\n")
	switch {
	case !ok:
		return fmt.Errorf("%w: INFO does not tell its maxmemory-policy %s", errPolicy, hint)
	case policy != "noeviction":
		return fmt.Errorf("%w: maxmemory-policy %s may evict locks and their numbers; set it to noeviction %s", errPolicy, policy, hint)
	}
	l.checked.Store(name, true)
	return nil
}

// unchecked forgets what is known of the server that has key.
func (l *Locker) unchecked(key string) {
	if _, name, err := l.node(l.ctx, key); err == nil {
		l.checked.Delete(name)
	}
}
