package localserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// FindEtcd returns the path of etcd in one of dirs or in PATH. Without one its
// error matches ErrMissing.
func FindEtcd(dirs ...string) (string, error) {
	for _, dir := range dirs {
		path := filepath.Join(dir, "etcd")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	if path, err := exec.LookPath("etcd"); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("etcd %w", ErrMissing)
}

// StartEtcd starts a single etcd with its data in dir. It ends when ctx has
// ended before it is ready.
func StartEtcd(ctx context.Context, path, dir string) (*Server, error) {
	var server *Server
	var err error
	for attempt := range startAttempts {
		if server, err = serveEtcd(ctx, path, dir, attempt); !portTaken(err) {
			break
		}
	}
	return server, err
}

func serveEtcd(ctx context.Context, path, dir string, attempt int) (*Server, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	peerPort, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	client, peer := "http://"+loopback(port), "http://"+loopback(peerPort)
	// A data folder remembers its peer address, so each attempt has its own.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, "--name", "demo", "--data-dir", filepath.Join(dir, "data"+strconv.Itoa(attempt)),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "demo="+peer,
		"--log-level", "warn")
	log := filepath.Join(dir, "etcd.log")
	process, err := startLogged(cmd, log, syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	server := &Server{Address: loopback(port), Port: port, process: process, stop: []syscall.Signal{syscall.SIGTERM}}
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Address}, Logger: zap.NewNop()})
	if err == nil {
		defer cli.Close()
		err = until(ctx, process, log, func(ctx context.Context) error {
			_, err := cli.Get(ctx, "ready") // a linearizable read: there is a leader
			return err
		})
	}
	if err != nil {
		server.Stop()
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	return server, nil
}
