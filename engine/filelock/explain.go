package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"leasehold/engine"

	"leasehold/engine/filelock/internal/disk"
	"leasehold/engine/filelock/internal/records"
)

// explain adds to an error of the file system what a person can do about it. If only a
// person can end the error, it is a refusal for a Join that has left nothing behind. Any
// other error means that nothing was learned.
func (s *store) explain(name string, err error, join bool) error {
	path := s.path
	lasts := true
	switch {
	case errors.Is(err, engine.ErrRefused), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s, or a part of it, was removed or moved while in use: open a new engine: %w", path, err)
	case errors.Is(err, records.ErrDisagree):
		err = fmt.Errorf("%q in %s: %w: one of them sees a masked /proc or another kernel; give all the machine's own /proc, or each a directory", name, path, err)
	case disk.IsStranger(err):
		at := records.Path(name)
		if errors.Is(err, records.ErrHighWater) {
			at = "floor"
		}
		err = fmt.Errorf("%s has the name of a record and is none: remove it: %w", filepath.Join(path, at), err)
	case disk.IsReadOnly(err):
		err = fmt.Errorf("cannot write in %s: make it and its files writable for this user, or use another directory: %w", path, err)
	case disk.IsFull(err):
		err, lasts = noRoom(s.root, path, strconv.Quote(name), err)
	case disk.IsTooMany(err):
		lasts = false
		err = fmt.Errorf("%q: %w", name, disk.TooMany(err))
	default:
		lasts = false
		err = fmt.Errorf("%q in %s: %w", name, path, err)
	}
	if lasts && join {
		return engine.Refuse("filelock: %w", err)
	}
	return fmt.Errorf("filelock: %w", err)
}

// noRoom explains a full disk. Missing inodes last.
func noRoom(root disk.Dir, path, what string, err error) (explained error, lasts bool) {
	if root.NoInodes() {
		return fmt.Errorf("no room for %s: the file system of %s has no inode left (its queues are safe): remove files, or use another directory: %w", what, path, err), true
	}
	return fmt.Errorf("no room for %s in %s (its queues are safe): free some, or use another directory: %w", what, path, err), false
}

func pathError(path, sub string, err error) error {
	return fmt.Errorf("%s: %w", filepath.Join(path, sub), err)
}
