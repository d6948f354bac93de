package zklock_test

import (
	"testing"
	"time"

	"github.com/fenceproxy/fenceproxy/locks/zklock"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	good := zklock.Dial{Servers: []string{"server"}}
	for name, test := range map[string]struct {
		dial   zklock.Dial
		config zklock.Config
		ok     bool
	}{
		"zero":                    {dial: good, ok: true},
		"no server":               {},
		"empty server":            {dial: zklock.Dial{Servers: []string{"a", ""}}},
		"no scheme":               {dial: zklock.Dial{Servers: []string{"a"}, Auth: []zklock.Auth{{Credentials: "x:y"}}}},
		"least TTL":               {dial: good, config: zklock.Config{TTL: time.Second}, ok: true},
		"too short":               {dial: good, config: zklock.Config{TTL: time.Second - 1}},
		"too long":                {dial: good, config: zklock.Config{TTL: 2 * time.Hour}},
		"negative":                {dial: good, config: zklock.Config{TTL: -time.Second}},
		"deep root":               {dial: good, config: zklock.Config{Root: "/a/b/é"}, ok: true},
		"relative root":           {dial: good, config: zklock.Config{Root: "a"}},
		"root of all":             {dial: good, config: zklock.Config{Root: "/"}},
		"slash at the end":        {dial: good, config: zklock.Config{Root: "/a/"}},
		"dots":                    {dial: good, config: zklock.Config{Root: "/a/../b"}},
		"control character":       {dial: good, config: zklock.Config{Root: "/a\nb"}},
		"ZooKeeper's own":         {dial: good, config: zklock.Config{Root: "/zookeeper/locks"}},
		"no such Number":          {dial: good, config: zklock.Config{Number: 2}},
		"Sequence":                {dial: good, config: zklock.Config{Number: zklock.Sequence}, ok: true},
		"Sequence and Containers": {dial: good, config: zklock.Config{Number: zklock.Sequence, Containers: true}},
		"Single":                  {dial: good, config: zklock.Config{Single: true}, ok: true},
		"Single and Containers":   {dial: good, config: zklock.Config{Single: true, Containers: true}},
		"Single and Sequence":     {dial: good, config: zklock.Config{Single: true, Number: zklock.Sequence}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if locker, err := zklock.New(test.dial, test.config); (err == nil) != test.ok || (locker != nil) != test.ok {
				t.Errorf("New = %v, %v", locker, err)
			}
		})
	}
}
