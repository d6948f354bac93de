package rivals

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/fenceproxy/fenceproxy/internal/testenv"
	"github.com/fenceproxy/fenceproxy/locks/zklock"
	"github.com/fenceproxy/fenceproxy/test/bench/bed"
	"github.com/go-zookeeper/zk"
)

// zookeeperBench is the ZooKeeper that all use.
type zookeeperBench struct {
	addr    string
	packets func() int64
}

func zookeeperFamily() *family {
	z := &zookeeperBench{}
	return &family{
		name: "ZooKeeper",
		start: func(b *bed.Bed) string {
			server := testenv.StartZooKeeper(b, testenv.ZooKeeperConfig{})
			z.addr, z.packets = server.Addr(), func() int64 { return int64(server.Packets(b)) }
			return "ZooKeeper " + z.version(b) + " without forceSync"
		},
		requests: func() int64 { return z.packets() },
		rivals: []rival{
			{"zklock", z.joinOurs, z.holdOurs},
			{"zk.Lock", z.joinLock, z.holdLock},
		},
	}
}

// version asks with the four letters that ZooKeeper answers.
func (z *zookeeperBench) version(b *bed.Bed) string {
	conn, err := net.Dial("tcp", z.addr)
	b.Must(err)
	defer conn.Close()
	_, err = conn.Write([]byte("srvr"))
	b.Must(err)
	answer, err := io.ReadAll(conn)
	b.Must(err)
	_, rest, _ := strings.Cut(string(answer), "version: ")
	version, _, _ := strings.Cut(rest, "-")
	return version
}

func (z *zookeeperBench) locker(b *bed.Bed) *zklock.Locker {
	locker, err := zklock.New(zklock.Dial{Servers: []string{z.addr}}, zklock.Config{TTL: ttl})
	b.Must(err)
	b.Cleanup(func() { locker.Close() })
	return locker
}

func (z *zookeeperBench) joinOurs(b *bed.Bed, resource string) contender {
	return joinLocker(z.locker(b), resource)
}

func (z *zookeeperBench) holdOurs(b *bed.Bed) func(ctx context.Context, n int) error {
	return holdLocker(z.locker(b))
}

func (z *zookeeperBench) conn(b *bed.Bed) *zk.Conn {
	conn, _, err := zk.Connect([]string{z.addr}, ttl, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	b.Must(err)
	b.Cleanup(conn.Close)
	return conn
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func (z *zookeeperBench) joinLock(b *bed.Bed, resource string) contender {
	lock := zk.NewLock(z.conn(b), "/zk.Lock/"+resource, zk.WorldACL(zk.PermAll))
	return contender{
		func(context.Context) error { return lock.Lock() },
		func(context.Context) error { return lock.Unlock() },
	}
}

func (z *zookeeperBench) holdLock(b *bed.Bed) func(ctx context.Context, n int) error {
	conn := z.conn(b)
	return func(_ context.Context, n int) error {
		return zk.NewLock(conn, fmt.Sprintf("/zk.Lock/held-%d", n), zk.WorldACL(zk.PermAll)).Lock()
	}
}
