// Package disk makes small file systems that can be full. Linux only, and only
// where this process may mount.
package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrRefused is behind the error of New where this process may not mount, or has
// no file system with the attributes that a server needs.
var ErrRefused = errors.New("no file system can be mounted here")

// folder is the name of a disk in the folder that it was made in.
const folder = "disk"

// Disk is a file system in memory. Its files go when it does.
type Disk struct {
	// Path is where it is mounted.
	Path string
	size int64 // bytes
}

// New mounts an empty file system of size bytes in the folder dir.
func New(dir string, size int64) (*Disk, error) {
	d := &Disk{Path: filepath.Join(dir, folder), size: size}
	if err := os.Mkdir(d.Path, 0o755); err != nil {
		return nil, fmt.Errorf("make a place for a file system: %w", err)
	}
	if err := unix.Mount("fence-test", d.Path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=0755", size)); err != nil {
		os.Remove(d.Path)
		return nil, fmt.Errorf("%w: mount: %w", ErrRefused, err)
	}
	// Without them versitygw has nowhere to put ETags; Linux has them since 6.6.
	if err := unix.Setxattr(d.Path, "user.fence", []byte("yes"), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: user attributes: %w", ErrRefused, err), d.Unmount())
	}
	return d, nil
}

// Fill leaves no more than the given number of bytes free, a page more at most,
// until Free. What is deleted meanwhile can be used again.
func (d *Disk) Fill(leave int64) error {
	for {
		used, err := d.used()
		if err != nil {
			return err
		}
		// It may have grown since: then the kernel refuses.
		if err = d.resize(used + leave); !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
}

// Free gives back the room that Fill took.
func (d *Disk) Free() error { return d.resize(d.size) }

func (d *Disk) used() (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(d.Path, &s); err != nil {
		return 0, fmt.Errorf("ask how full %s is: %w", d.Path, err)
	}
	return int64(s.Blocks-s.Bfree) * s.Bsize, nil
}

func (d *Disk) resize(size int64) error {
	// A size of 0 would be no limit at all.
	if err := unix.Mount("", d.Path, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d", max(size, 1))); err != nil {
		return fmt.Errorf("resize %s: %w", d.Path, err)
	}
	return nil
}

// Unmount ends the file system once nobody uses it any more; at its path there is
// nothing from now on. A nil one has ended.
func (d *Disk) Unmount() error {
	if d == nil {
		return nil
	}
	return unmount(d.Path)
}

func unmount(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return os.Remove(path)
}

// Sweep unmounts what a process that was killed has left in the folder dir, if
// anything.
func Sweep(dir string) {
	_ = unmount(filepath.Join(dir, folder)) // nothing there, mostly
}
