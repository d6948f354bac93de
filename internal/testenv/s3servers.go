package testenv

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/fenceproxy/fenceproxy/internal/localserver"
)

// launchVersityGW starts versitygw over a folder, which must be on a file
// system that has user attributes.
func launchVersityGW() (*S3Server, func(), error) {
	path, err := findVersityGW()
	if errors.Is(err, errMissing) {
		return dockerVersityGW(err)
	}
	if err != nil {
		return nil, nil, err
	}
	return launchS3("versitygw", 1, func(s *S3Server, ports []int) (command, error) { return s.versityGW(path, s.dir, ports[0]) })
}

// versityGW is the program over a folder in root.
func (s *S3Server) versityGW(path, root string, port int) (command, error) {
	data, versions := filepath.Join(root, "data"), filepath.Join(root, "versions")
	for _, dir := range []string{data, versions} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return command{}, err
		}
	}
	s.ready = func(ctx context.Context) error { return answersHTTP(ctx, s.addr) }
	return command{path: path, args: []string{
		"--access", s.AccessKey, "--secret", s.SecretKey, "--region", s.Region,
		"--port", localserver.Loopback(port), "--quiet", "--keep-alive",
		"posix", "--versioning-dir", versions, data,
	}}, nil
}

func findVersityGW() (string, error) {
	if err := missingHere(); err != nil {
		return "", err
	}
	own, err := binFolder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(own, "versitygw")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if path, err = exec.LookPath("versitygw"); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("versitygw is %w", errMissing)
}

// launchSeaweedFS starts all of SeaweedFS in one process. It takes seconds.
func launchSeaweedFS() (*S3Server, func(), error) {
	path, err := exec.LookPath("weed")
	if err != nil {
		return nil, nil, fmt.Errorf("weed is %w", errMissing)
	}
	return launchS3("seaweedfs", 4, func(s *S3Server, ports []int) (command, error) {
		data, users := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "s3.json")
		if err := os.Mkdir(data, 0o700); err != nil {
			return command{}, err
		}
		config, err := json.Marshal(map[string]any{"identities": []any{map[string]any{
			"name":        "test",
			"credentials": []any{map[string]string{"accessKey": s.AccessKey, "secretKey": s.SecretKey}},
			"actions":     []string{"Admin", "Read", "Write", "List", "Tagging"},
		}}})
		if err != nil {
			return command{}, err
		}
		if err := os.WriteFile(users, config, 0o600); err != nil {
			return command{}, err
		}
		// It answers before its filer does: the first bucket is the proof.
		s.ready = func(ctx context.Context) error {
			client, stop, err := s.client(s.addr)
			if err != nil {
				return err
			}
			defer stop()
			_, err = client.ListBuckets(ctx)
			return err
		}
		return command{path: path, args: []string{
			"mini", "-dir=" + data, "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.config=" + users,
			// It reports home unless told not to.
			"-master.telemetry=false", "-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
			"-s3.port=" + strconv.Itoa(ports[0]), "-master.port=" + strconv.Itoa(ports[1]),
			"-volume.port=" + strconv.Itoa(ports[2]), "-filer.port=" + strconv.Itoa(ports[3]),
		}}, nil
	})
}

// launchS3 starts the program that prepare names for a new folder, on free
// ports, the first of which is S3's.
func launchS3(name string, ports int, prepare func(*S3Server, []int) (command, error)) (*S3Server, func(), error) {
	var (
		s    *S3Server
		stop func()
	)
	err := localserver.OnFreePorts(ports, func(ports []int) error {
		dir, remove, err := scratch()
		if err != nil {
			return err
		}
		s = &S3Server{
			name: name, addr: loopback(ports[0]), dir: dir, Region: defaultS3Region,
			AccessKey: rand.Text(), SecretKey: rand.Text(),
		}
		stop = func() { s.proc.end(syscall.SIGKILL); remove() }
		program, err := prepare(s, ports)
		if err == nil {
			program.logPath, program.onDeath = logIn(dir), syscall.SIGKILL
			s.program = &program
			err = s.start()
		}
		if err != nil {
			stop()
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return s, stop, nil
}
