// Package container runs servers in containers, where a Docker engine answers.
//
// Docker is asked through its command line and not through testcontainers-go:
// the module graph of that library, engine client and all, would be inherited
// by everybody who requires this module.
//
// A container runs below a docker command that is our child and hands signals
// on, so that it ends when this process dies, however it dies. What is left of
// it then, stopped or paused, the next Create removes, as Ryuk does for
// testcontainers-go: each container has a label that names a folder of its
// process, and that folder is gone.
package container

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/folder"
)

// Config is an image and how it is run.
type Config struct {
	// Image is its name and tag. It is pulled unless it is there.
	Image string
	// Port is the one that it listens on.
	Port int
	// Env are variables, each name=value.
	Env []string
	// Stop is the signal that ends it in an orderly way. Defaults to the image's.
	Stop string
	// Folders are such that are not part of the image, for its data.
	Folders []string
	// Args are the image's arguments, given the loopback port that it has. May
	// be nil.
	Args func(port int) []string
	// Ready says whether the server answers at that port.
	Ready func(ctx context.Context, port int) error
}

const (
	// pullLimit is how long it may take to get an image.
	pullLimit = 5 * time.Minute
	// limit is how long the engine may take for anything else.
	limit = time.Minute
	// label names the folder of the process that made a container.
	label = "fenceproxy.test"
)

// Container is a server in a container, with a loopback port of its own. Its
// data lives as long as it does, through kills and restarts. It is safe for use
// by one goroutine at a time.
type Container struct {
	config Config
	docker string
	dir    string
	forget func() // removes dir
	port   int
	id     string
	run    *localserver.Process // the docker command that it runs below
}

// Start makes a container, starts it on a loopback port, and returns when it is
// ready. Remove removes it.
func Start(ctx context.Context, config Config) (*Container, error) {
	docker, err := exec.LookPath("docker")
	if err == nil {
		err = exec.CommandContext(ctx, docker, "version").Run()
	}
	if err != nil {
		return nil, fmt.Errorf("no Docker engine answers: %w", err)
	}
	dir, forget, err := folder.New(nil)
	if err != nil {
		return nil, err
	}
	c := &Container{config: config, docker: docker, dir: dir, forget: forget}
	if err = c.sweep(ctx); err == nil {
		err = localserver.OnFreePorts(1, func(ports []int) error {
			c.port = ports[0]
			return c.renew(ctx)
		})
	}
	if err != nil {
		c.Remove()
		return nil, fmt.Errorf("run container of %s: %w", config.Image, err)
	}
	return c, nil
}

// sweep removes the containers of processes that were killed.
func (c *Container) sweep(ctx context.Context) error {
	list, err := c.ask(ctx, limit, "ps", "--all", "--filter", "label="+label, "--format", `{{.ID}} {{.Label "`+label+`"}}`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		id, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			continue
		}
		// Another process may sweep too.
		_, _ = c.ask(ctx, limit, "rm", "--force", "--volumes", id)
	}
	return nil
}

// renew puts a new container in the place of the one that was, without its data.
func (c *Container) renew(ctx context.Context) error {
	c.drop()
	// As the first process of its container the server would ignore a signal that
	// it does not handle yet: --init has another one there.
	args := []string{
		"create", "--init", "--label", label + "=" + c.dir,
		"--publish", fmt.Sprintf("%s:%d", localserver.Loopback(c.port), c.config.Port),
	}
	if c.config.Stop != "" {
		args = append(args, "--stop-signal", c.config.Stop)
	}
	for _, e := range c.config.Env {
		args = append(args, "--env", e)
	}
	for _, f := range c.config.Folders {
		args = append(args, "--volume", f)
	}
	args = append(args, c.config.Image)
	if c.config.Args != nil {
		args = append(args, c.config.Args(c.port)...)
	}
	id, err := c.ask(ctx, pullLimit, args...)
	if err != nil {
		return err
	}
	c.id = strings.TrimSpace(id)
	return c.Restart(ctx)
}

// Port is the loopback port that the server has.
func (c *Container) Port() int { return c.port }

// Done is closed when the server has ended.
func (c *Container) Done() <-chan struct{} { return c.run.Done() }

// Restart starts the server on its data and its port, and returns when it is
// ready. One that runs is stopped first, as Stop does.
func (c *Container) Restart(ctx context.Context) error {
	c.Stop()
	run, err := localserver.StartLogged(exec.CommandContext(context.WithoutCancel(ctx), c.docker, "start", "--attach", c.id),
		filepath.Join(c.dir, "log"), syscall.SIGTERM)
	if err != nil {
		return err
	}
	c.run = run
	return c.Await(ctx, limit)
}

// Await returns when the server, which has been started, is ready; or an error if
// it has ended, or is not ready within limit.
func (c *Container) Await(ctx context.Context, limit time.Duration) error {
	return c.run.AwaitReady(ctx, limit, func(ctx context.Context) error { return c.config.Ready(ctx, c.port) })
}

// Stop ends the server as its image has it end in an orderly way. After ten
// seconds Docker kills it.
func (c *Container) Stop() { _ = c.end("stop") } // fails if it has ended by itself

// Kill ends the server as a crash does: kill -9 of all its processes.
func (c *Container) Kill() error { return c.end("kill") }

func (c *Container) end(how string) error {
	if c.run == nil {
		return nil
	}
	select {
	case <-c.run.Done():
		return nil
	default:
	}
	_, err := c.ask(context.Background(), limit, how, c.id)
	c.run.End(limit, syscall.SIGTERM) // what it tells Docker is nothing new
	return err
}

// Freeze stops the server where it is, with all its processes; its connections
// stay open.
func (c *Container) Freeze() error { return c.tell("pause") }

// Thaw lets a frozen server go on.
func (c *Container) Thaw() error { return c.tell("unpause") }

func (c *Container) tell(what string) error {
	_, err := c.ask(context.Background(), limit, what, c.id)
	return err
}

// ask runs a docker command and returns what it prints.
func (c *Container) ask(ctx context.Context, limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.docker, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}

// Remove ends the server and removes its data.
func (c *Container) Remove() {
	c.drop()
	c.forget()
}

// Lose ends the server as a crash does and loses its data. Restart then starts
// an empty one, on the same port.
func (c *Container) Lose(ctx context.Context) error { return c.renew(ctx) }

func (c *Container) drop() {
	if c.id != "" {
		_, _ = c.ask(context.Background(), limit, "rm", "--force", "--volumes", c.id) // sweep will try again
	}
	if c.run != nil {
		c.run.End(limit)
	}
	c.id, c.run = "", nil
}
