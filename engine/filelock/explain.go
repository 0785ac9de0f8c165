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

// explain says what to do about an error of the file system, for a person. An
// error that only such a person can end is final for a Join that has left
// nothing behind: it is a refusal. Of anything else nothing was learned.
func (s *store) explain(name string, err error, join bool) error {
	path := s.path
	lasts := true
	switch {
	case errors.Is(err, engine.ErrRefused), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s, or a part of it, was removed or moved while in use: begin again, with a new engine: %w", path, err)
	case errors.Is(err, records.ErrDisagree):
		err = fmt.Errorf("%q in %s: %w: one of them sees a masked /proc or another kernel; give them the machine's own, or a directory each", name, path, err)
	case disk.IsStranger(err):
		at := records.Path(name)
		if errors.Is(err, records.ErrHighWater) {
			at = "floor"
		}
		err = fmt.Errorf("%s is in the place of a record and is none: remove it: %w", filepath.Join(path, at), err)
	case disk.IsReadOnly(err):
		err = fmt.Errorf("cannot write in %s: it must belong to this user and be writable with all that is in it, or use another directory: %w", path, err)
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

// noRoom explains a full disk. That inodes are missing lasts.
func noRoom(root disk.Dir, path, what string, err error) (explained error, lasts bool) {
	if root.NoInodes() {
		return fmt.Errorf("no room for %s: the file system of %s has no inode left (what was there is kept): remove files, or use another directory: %w", what, path, err), true
	}
	return fmt.Errorf("no room for %s in %s (what was there is kept): free some, or use another directory: %w", what, path, err), false
}

func pathError(path, sub string, err error) error {
	return fmt.Errorf("%s: %w", filepath.Join(path, sub), err)
}
