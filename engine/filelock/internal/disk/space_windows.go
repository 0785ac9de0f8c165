package disk

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// Space is what is left on the drive.
func (d Dir) Space() (s Space, err error) {
	p, err := windows.UTF16PtrFromString(d.path)
	if err != nil {
		return s, err
	}
	return s, windows.GetDiskFreeSpaceEx(p, &s.Free, nil, nil)
}

// Look opens a directory that is there already.
func Look(path string) (Dir, error) {
	return Dir{path: filepath.Dir(path)}.Sub(filepath.Base(path))
}

// Mine finds nothing to refuse: see the package documentation of filelock.
func (d Dir) Mine(path string) error { return d.mine(path) }
