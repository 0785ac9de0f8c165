//go:build darwin || freebsd

package disk

import "golang.org/x/sys/unix"

// Linked reports whether any name still leads to the file.
func (f osFile) Linked() (bool, error) {
	var st unix.Stat_t
	if err := Again(func() error { return unix.Fstat(f.fd, &st) }); err != nil {
		return false, err
	}
	return st.Nlink > 0, nil
}
