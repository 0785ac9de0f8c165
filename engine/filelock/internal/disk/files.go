// Package disk has the files and directories of filelock, on every system. It opens them
// by descriptor if the system can, never through a symbolic link, and never for a child
// process to inherit. A kernel lock belongs to the open file. The package also says what
// an error means for the person who has to act on it.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// File is an open file. Every system has one kind of its own; tests put another
// in front of it (Dir.Wrap).
type File interface {
	ReadAt(b []byte, off int64) (n int, err error)
	WriteAt(b []byte, off int64) error // all of b, or it says why not
	Truncate(size int64) error

	TryLock() (bool, error)   // takes the kernel lock if it is free
	TryShared() (bool, error) // takes it together with others who only look whether its owner lives
	Unlock()

	IsAt(d Dir, name string) (bool, error) // whether that name still leads to it
	Dup(name string) (*os.File, error)
	Close()
}

// ErrStranger: a folder that should be a record has only what does not belong there.
var ErrStranger = errors.New("it has no number, and is not empty")

// ErrMoved: another directory is where this one was, so nobody else comes here.
var ErrMoved = fmt.Errorf("another directory is in its place: %w", fs.ErrNotExist)

// wrapped is what open and create return.
func (d Dir) wrapped(f osFile, err error) (File, error) {
	if err == nil && d.Wrap != nil {
		return d.Wrap(f), nil
	}
	return f, err
}

// MakeSub opens a directory inside d, made with mode 0700 if it is not there.
func (d Dir) MakeSub(name string) (Dir, error) {
	if err := d.Mkdir(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return Dir{}, err
	}
	s, err := d.Sub(name)
	if err != nil {
		return Dir{}, err
	}
	if err := s.mine(name); err != nil {
		s.Close()
		return Dir{}, err
	}
	return s, nil
}

// Space is what is left on a file system.
type Space struct {
	Free     uint64 // bytes
	Inodes   uint64 // files that can be made, where it Counts them
	Counts   bool
	ReadOnly bool
}
