package testenv

import (
	"github.com/fenceproxy/fenceproxy/internal/localserver"
	"github.com/fenceproxy/fenceproxy/internal/testenv/disk"
	"github.com/fenceproxy/fenceproxy/internal/testenv/folder"
)

// CannotFill says why no server here can have a disk of its own: nil if it can,
// else an error that matches disk.ErrRefused.
func CannotFill() error {
	p, err := newPlace(nil, 1<<20)
	if err == nil {
		p.remove()
	}
	return err
}

// place is a folder for a server's data, perhaps with a disk of its own.
type place struct {
	dir    string
	disk   *disk.Disk // nil: none
	remove func()
}

// newPlace makes one that belongs to the account; size is that of its disk, 0
// for none.
func newPlace(who *localserver.Account, size int64) (place, error) {
	dir, remove, err := folder.New(who)
	if err != nil || size == 0 {
		return place{dir, nil, remove}, err
	}
	d, err := disk.New(dir, size)
	if err != nil {
		remove()
		return place{}, err
	}
	p := place{d.Path, d, func() { _ = d.Unmount(); remove() }}
	if err := who.Own(d.Path); err != nil {
		p.remove()
		return place{}, err
	}
	return p, nil
}
