//go:build darwin || freebsd

package disk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Local refuses a file system that is not marked as stored on this machine.
func (d Dir) Local(path string) error {
	var st unix.Statfs_t
	if err := Again(func() error { return unix.Fstatfs(d.fd, &st) }); err != nil {
		return err
	}
	if st.Flags&unix.MNT_LOCAL == 0 {
		return fmt.Errorf("%s is not on a local file system, so locks may exclude nobody: use a local directory or a server, or force it if only processes of one kernel use it", path)
	}
	return nil
}

func IsFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

func IsReadOnly(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

func isReadOnly(st *unix.Statfs_t) bool { return st.Flags&unix.MNT_RDONLY != 0 }
