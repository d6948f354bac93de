package testenv

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/internal/testenv/disk"
)

// S3OnDisk is a private versitygw whose data is on a disk of its own.
type S3OnDisk struct {
	*S3Server
	disk *disk.Disk
}

// StartS3OnDisk is StartS3 on a disk of size bytes. Where CannotFill says why not,
// there is no such server.
func StartS3OnDisk(tb testing.TB, size int64) *S3OnDisk {
	tb.Helper()
	path, err := findVersityGW()
	need(tb, err)
	var d *disk.Disk
	s, stop, err := launchS3("versitygw", 1, func(s *S3Server, ports []int) (c command, err error) {
		if err := d.Unmount(); err != nil { // that of an attempt before
			return c, err
		}
		if d, err = disk.New(s.dir, size); err != nil {
			return c, err
		}
		return s.versityGW(path, d.Path, ports[0])
	})
	need(tb, err)
	tb.Cleanup(stop)
	tb.Cleanup(func() { // before its folder goes
		if err := d.Unmount(); err != nil {
			tb.Errorf("testenv: %v", err)
		}
	})
	return &S3OnDisk{s, d}
}

// Fill leaves no more than some bytes free on the server's disk.
func (s *S3OnDisk) Fill(tb testing.TB, leave int64) { tb.Helper(); s.must(tb, s.disk.Fill(leave)) }

// Free gives back what Fill took.
func (s *S3OnDisk) Free(tb testing.TB) { tb.Helper(); s.must(tb, s.disk.Free()) }
