package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// On Windows a directory is a path, and a file that somebody has open can be
// neither removed nor renamed, since it is opened without FILE_SHARE_DELETE.
// What descriptors give elsewhere follows from that: as long as this process
// Has a number of a record open, the path of its directory cannot come to mean
// another one.

type osFile struct{ h windows.Handle }

type Dir struct {
	path string
	Wrap func(File) File // if not nil, stands in front of every file; for tests
}

// Limit: none that a program would reach.
func Limit() uint64 { return 1 << 24 }

func IsTooMany(err error) bool { return errors.Is(err, windows.ERROR_TOO_MANY_OPEN_FILES) }

// IsStranger: what has a record's name is a file and no folder.
func IsStranger(err error) bool {
	return errors.Is(err, ErrStranger) || errors.Is(err, windows.ERROR_DIRECTORY)
}

func (d Dir) NoInodes() bool { return false }

func TooMany(err error) error {
	return fmt.Errorf("too many files are open: close some: %w", err)
}

func openFile(path string, how uint32) (osFile, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return osFile{}, err
	}
	h, err := windows.CreateFile(p, windows.GENERIC_READ|windows.GENERIC_WRITE,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE, nil, how,
		windows.FILE_ATTRIBUTE_NORMAL|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	return osFile{h}, err
}

// Dup: nobody asks, see LifeFile.
func (f osFile) Dup(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func (f osFile) Close() { windows.CloseHandle(f.h) }

func at(off int64) *windows.Overlapped {
	return &windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}
}

func (f osFile) ReadAt(b []byte, off int64) (int, error) {
	var n uint32
	err := windows.ReadFile(f.h, b, &n, at(off))
	if err == windows.ERROR_HANDLE_EOF {
		err = io.EOF
	}
	return int(n), err
}

// WriteAt writes all of b or says why not.
func (f osFile) WriteAt(b []byte, off int64) error {
	for len(b) > 0 {
		var n uint32
		if err := windows.WriteFile(f.h, b, &n, at(off)); err != nil {
			return err
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

func (f osFile) Truncate(size int64) error { return windows.Ftruncate(f.h, size) }

// lockAt is far behind every byte that is ever written: locks are mandatory
// here and would keep others from reading.
const lockAt = 1 << 62

func (f osFile) TryLock() (bool, error) { return f.lock(windows.LOCKFILE_EXCLUSIVE_LOCK) }

func (f osFile) TryShared() (bool, error) { return f.lock(0) }

func (f osFile) lock(how uint32) (bool, error) {
	err := windows.LockFileEx(f.h, how|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at(lockAt))
	switch err {
	case nil:
		return true, nil
	case windows.ERROR_LOCK_VIOLATION, windows.ERROR_IO_PENDING:
		return false, nil
	}
	return false, fmt.Errorf("LockFileEx: %w", err)
}

func (f osFile) Unlock() { _ = windows.UnlockFileEx(f.h, 0, 1, 0, at(lockAt)) }

// IsAt: what is open cannot be moved or removed.
func (f osFile) IsAt(Dir, string) (bool, error) { return true, nil }

// IsReplaced: a directory is its path.
func (d Dir) IsReplaced(string) bool { return false }

func (d Dir) Close() {}

func (d Dir) join(name string) string { return filepath.Join(d.path, name) }

func (d Dir) Sub(name string) (Dir, error) {
	s := Dir{d.join(name), d.Wrap}
	st, err := os.Lstat(s.path)
	if err == nil && !st.IsDir() {
		err = fmt.Errorf("%s is not a directory: %w", s.path, windows.ERROR_DIRECTORY)
	}
	return s, err
}

func (d Dir) Open(name string) (File, error) {
	return d.wrapped(openFile(d.join(name), windows.OPEN_EXISTING))
}

// Create makes a file that must not exist yet.
func (d Dir) Create(name string) (File, error) {
	return d.wrapped(openFile(d.join(name), windows.CREATE_NEW))
}

func (d Dir) Has(name string) (bool, error) {
	_, err := os.Lstat(d.join(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (d Dir) Mkdir(name string) error { return os.Mkdir(d.join(name), 0o700) }

// MoveDir renames a directory to a name that must be free: an empty directory
// that is in the way goes first, and only if it is empty.
func (d Dir) MoveDir(name string, to Dir, as string) error {
	err := os.Rename(d.join(name), to.join(as))
	if err != nil && windows.RemoveDirectory(windows.StringToUTF16Ptr(to.join(as))) == nil {
		err = os.Rename(d.join(name), to.join(as))
	}
	return err
}

// Move is never needed, see MovesOpenFiles.
func (d Dir) Move(name, as string) error { return errors.ErrUnsupported }

// Syncs: a directory cannot be made to last over a crash of the machine.
const Syncs = false

// Touch and Sync are never needed, see Syncs.
func (d Dir) Touch(name string) error { return errors.ErrUnsupported }
func (d Dir) Sync() error             { return errors.ErrUnsupported }

// MovesOpenFiles: not here. Nor can a sweeper remove a file that is open, so that
// it does no harm to a client that has no lock yet.
const MovesOpenFiles = false

func (d Dir) Remove(name string) error { return os.Remove(d.join(name)) }

// Rmdir removes an empty directory and nothing else.
func (d Dir) Rmdir(name string) error {
	return windows.RemoveDirectory(windows.StringToUTF16Ptr(d.join(name)))
}

func (d Dir) List() ([]string, error) {
	f, err := os.Open(d.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// IsInUse says that a directory's name is taken by one that is not empty, or
// that somebody has it open.
func IsInUse(err error) bool {
	return errors.Is(err, fs.ErrExist) || errors.Is(err, windows.ERROR_DIR_NOT_EMPTY) ||
		errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_SHARING_VIOLATION)
}

// MakeRoot opens the engine's directory, made if it is not there. Who may
// write in it is left to its access control list: %LocalAppData% is the
// user's own.
func MakeRoot(path string) (Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return Dir{}, err
	}
	return Dir{path: filepath.Dir(path)}.Sub(filepath.Base(path))
}

func (d Dir) mine(string) error { return nil }

// Local refuses a drive that is not one of this machine. It asks where the open
// directory is, since a part of its path may be a link to another machine.
func (d Dir) Local(path string) error {
	final, err := d.final()
	if err != nil {
		return fmt.Errorf("on which drive %s is cannot be learned, so locks may exclude nobody: use another directory or a server, or force it if only processes of one machine use it: %w", path, err)
	}
	if root := driveOf(final); root != "" {
		p, err := windows.UTF16PtrFromString(root)
		if err != nil {
			return err
		}
		switch windows.GetDriveType(p) {
		case windows.DRIVE_FIXED, windows.DRIVE_RAMDISK, windows.DRIVE_REMOVABLE:
			return nil
		}
	}
	return fmt.Errorf("%s is not on a local drive, so locks may exclude nobody: use a local directory or a server, or force it if only processes of one machine use it", path)
}

// final is the directory's path without links.
func (d Dir) final() (string, error) {
	p, err := windows.UTF16PtrFromString(d.path)
	if err != nil {
		return "", err
	}
	h, err := windows.CreateFile(p, windows.FILE_READ_ATTRIBUTES,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return "", os.NewSyscallError("CreateFile", err)
	}
	defer windows.CloseHandle(h)
	b := make([]uint16, 1<<15) // no path is longer
	n, err := windows.GetFinalPathNameByHandle(h, &b[0], uint32(len(b)), 0)
	if err != nil {
		return "", os.NewSyscallError("GetFinalPathNameByHandle", err)
	}
	return windows.UTF16ToString(b[:min(int(n), len(b))]), nil
}

func IsFull(err error) bool { return errors.Is(err, windows.ERROR_DISK_FULL) }

func IsReadOnly(err error) bool {
	return errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_WRITE_PROTECT)
}
