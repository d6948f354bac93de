// Package container runs servers in containers, where a Docker engine answers.
//
// Docker is asked through its command line and not through testcontainers-go:
// the module graph of that library, engine client and all, would be inherited
// by everybody who requires this module.
package container

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/folder"
)

// Config is an image and how it is run.
type Config struct {
	Image string
	// Port is the one that it listens on.
	Port int
	// Env are variables, each name=value.
	Env []string
	// Args are the image's arguments, given the loopback port that it has.
	Args func(port int) []string
	// Ready says whether the server answers at that port.
	Ready func(ctx context.Context, port int) error
}

const (
	// pullLimit is how long it may take until the server is ready: perhaps the
	// image has to be pulled first.
	pullLimit = 5 * time.Minute
	grace     = 5 * time.Second
)

// Run starts the container on a loopback port, and returns the port and what
// stops the container. It runs below a docker command that is our child, and
// is stopped through it, also when this process dies.
func Run(c Config) (port int, stop func(), err error) {
	docker, err := exec.LookPath("docker")
	if err == nil {
		err = exec.Command(docker, "version").Run()
	}
	if err != nil {
		return 0, nil, fmt.Errorf("no Docker engine answers: %w", err)
	}
	dir, remove, err := folder.New(nil)
	if err != nil {
		return 0, nil, err
	}
	var process *localserver.Process
	err = localserver.OnFreePorts(1, func(ports []int) (err error) {
		port = ports[0]
		process, err = c.start(docker, filepath.Join(dir, "log"), port)
		return err
	})
	if err != nil {
		remove()
		return 0, nil, fmt.Errorf("run container of %s: %w", c.Image, err)
	}
	return port, func() { process.End(grace, syscall.SIGTERM, syscall.SIGTERM); remove() }, nil
}

func (c Config) start(docker, log string, port int) (*localserver.Process, error) {
	args := []string{"run", "--rm", "--sig-proxy=true", "--publish", fmt.Sprintf("%s:%d", localserver.Loopback(port), c.Port)}
	for _, e := range c.Env {
		args = append(args, "--env", e)
	}
	args = append(append(args, c.Image), c.Args(port)...)
	process, err := localserver.StartLogged(exec.Command(docker, args...), log, syscall.SIGTERM)
	if err != nil {
		return nil, err
	}
	err = process.AwaitReady(context.Background(), pullLimit, func(ctx context.Context) error { return c.Ready(ctx, port) })
	if err != nil {
		process.End(grace, syscall.SIGTERM)
		return nil, err
	}
	return process, nil
}
