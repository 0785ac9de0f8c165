//go:build darwin || freebsd

package disk

import "golang.org/x/sys/unix"

// Syncs: not relied on here, see package filelock on what is known of a boot.
const Syncs = false

// identify says which file a name leads to. An empty name is fd itself.
func identify(fd int, name string) (identity, error) {
	var st unix.Stat_t
	err := Again(func() error {
		if name == "" {
			return unix.Fstat(fd, &st)
		}
		return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	return identity{uint64(st.Dev), uint64(st.Ino)}, err
}
