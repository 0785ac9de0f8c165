//go:build darwin || freebsd

package filelock

import "golang.org/x/sys/unix"

// linked reports whether any name still leads to the file.
func (f osFile) linked() (bool, error) {
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstat(f.fd, &st) }); err != nil {
		return false, err
	}
	return st.Nlink > 0, nil
}
