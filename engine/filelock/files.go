package filelock

import "os"

// file is an open file. Every system has one kind of its own; tests put another
// in front of it (dir.wrap).
type file interface {
	readAt(b []byte, off int64) (n int, err error)
	writeAt(b []byte, off int64) error // all of b, or it says why not
	truncate(size int64) error

	tryLock() (bool, error)   // takes the kernel lock if it is free
	tryShared() (bool, error) // takes it together with others who only look whether its owner lives
	unlock()

	linked() (bool, error) // whether any name still leads to it
	dup(name string) (*os.File, error)
	close()
}

// wrapped is what open and create return.
func (d dir) wrapped(f osFile, err error) (file, error) {
	if err == nil && d.wrap != nil {
		return d.wrap(f), nil
	}
	return f, err
}
