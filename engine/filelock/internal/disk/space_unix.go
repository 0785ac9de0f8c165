//go:build linux || darwin || freebsd

package disk

import (
	"math"

	"golang.org/x/sys/unix"
)

// Space is what is left on the file system.
func (d Dir) Space() (s Space, err error) {
	var st unix.Statfs_t
	if err := Again(func() error { return unix.Fstatfs(d.fd, &st) }); err != nil {
		return s, err
	}
	s.Free = math.MaxUint64
	if st.Blocks > 0 { // else it is none that stores anything, such as /proc
		s.Free = uint64(max(st.Bavail, 0)) * uint64(st.Bsize)
	}
	s.Inodes, s.Counts = uint64(max(st.Ffree, 0)), st.Files > 0
	s.ReadOnly = isReadOnly(&st)
	return s, nil
}

// Look opens a directory that is there already.
func Look(path string) (Dir, error) { return openDir(path) }

// Mine refuses a directory in which somebody else could replace our files.
func (d Dir) Mine(path string) error { return d.mine(path) }
