//go:build linux || darwin || freebsd

package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// osFile and Dir are bare descriptors: a transaction is five system calls, and
// package os would add half of that Again in bookkeeping. Everything is opened
// Close-on-exec, so that a child process never keeps a claim alive, and never
// through a symbolic link.
type osFile struct{ fd int }

type Dir struct {
	fd   int
	Wrap func(File) File // if not nil, stands in front of every file; for tests
}

const openFlags = unix.O_CLOEXEC | unix.O_NOFOLLOW

// Again repeats a call that a signal interrupted.
func Again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func (f osFile) Dup(name string) (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (f osFile) Close() { unix.Close(f.fd) }

func (f osFile) ReadAt(b []byte, off int64) (n int, err error) {
	for {
		if n, err = unix.Pread(f.fd, b, off); err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// WriteAt writes all of b or says why not.
func (f osFile) WriteAt(b []byte, off int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(f.fd, b, off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

func (f osFile) Truncate(size int64) error {
	return Again(func() error { return unix.Ftruncate(f.fd, size) })
}

// TryLock takes the kernel lock if it is free. flock and not an OFD lock:
// both belong to the open file and not to the process (so two engines of one
// process exclude each other, and closing an unrelated descriptor releases
// nothing), but flock is one word in the kernel, and the BSDs have it too.
func (f osFile) TryLock() (bool, error) { return f.flock(unix.LOCK_EX) }

// TryShared takes the kernel lock together with others who only look whether
// its owner lives.
func (f osFile) TryShared() (bool, error) { return f.flock(unix.LOCK_SH) }

func (f osFile) flock(how int) (bool, error) {
	for {
		switch err := unix.Flock(f.fd, how|unix.LOCK_NB); err {
		case nil:
			return true, nil
		case unix.EWOULDBLOCK:
			return false, nil
		case unix.EINTR:
		default:
			return false, fmt.Errorf("flock: %w", err)
		}
	}
}

func (f osFile) Unlock() { unix.Flock(f.fd, unix.LOCK_UN) }

// identity is what tells an open file from every other.
type identity struct{ dev, ino uint64 }

// IsAt reports whether the name leads to this very file. That a file has some
// name is not enough: who moves it away, or keeps a hard link of it as backups
// do, leaves it one where nobody looks.
func (f osFile) IsAt(d Dir, name string) (bool, error) { return isAt(f.fd, d.fd, name) }

func isAt(fd, in int, name string) (bool, error) {
	there, err := identify(in, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	its, err := identify(fd, "")
	return its == there, err
}

// IsReplaced reports whether another directory has the path of this one. If
// nothing has, nobody else can be at work there, and this process may see other
// paths than when it opened this one (chroot).
func (d Dir) IsReplaced(path string) bool {
	_, err := identify(unix.AT_FDCWD, path)
	if err != nil {
		return false
	}
	same, err := isAt(d.fd, unix.AT_FDCWD, path)
	return err == nil && !same
}

// Limit is how many files this process may have open.
func Limit() uint64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 0 // it cannot fail; if it did, the least would do
	}
	return uint64(l.Cur)
}

// IsTooMany: this process, or the system, has too many files open.
func IsTooMany(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// IsStranger: what has a record's name, or a number's, is a symbolic link, a
// folder, a file, a pipe, a socket, and not what belongs there.
func IsStranger(err error) bool {
	for _, e := range [...]error{ErrStranger, unix.ELOOP, unix.ENOTDIR, unix.EISDIR, unix.ESPIPE, unix.ENXIO, unix.ENODEV} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// NoInodes: nothing can be made on this file system, whatever room it has.
func (d Dir) NoInodes() bool {
	var st unix.Statfs_t
	err := Again(func() error { return unix.Fstatfs(d.fd, &st) })
	return err == nil && st.Files > 0 && st.Ffree == 0
}

// TooMany says what to do about IsTooMany.
func TooMany(err error) error {
	return fmt.Errorf("too many files are open (this process may have %d): allow it more (ulimit -n), or close some: %w", Limit(), err)
}

func openDir(path string) (Dir, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|openFlags, 0)
	return Dir{fd: fd}, notFollowed(runtime.GOOS, err)
}

// notFollowed is the error of an open that may have met a symbolic link: ELOOP is
// for that, on every system. FreeBSD says EMLINK, which means from any other call
// that a directory is full.
func notFollowed(system string, err error) error {
	if system == "freebsd" && err == unix.EMLINK {
		return unix.ELOOP
	}
	return err
}

// FD is the descriptor, for paths through /proc/self/fd.
func (d Dir) FD() int { return d.fd }

func (d Dir) Close() { unix.Close(d.fd) }

func (d Dir) Sub(name string) (Dir, error) {
	fd, err := unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|openFlags, 0)
	return Dir{fd, d.Wrap}, notFollowed(runtime.GOOS, err)
}

func (d Dir) Open(name string) (File, error) {
	fd, err := unix.Openat(d.fd, name, unix.O_RDWR|openFlags, 0)
	return d.wrapped(osFile{fd}, notFollowed(runtime.GOOS, err))
}

// Create makes a file that must not exist yet.
func (d Dir) Create(name string) (File, error) {
	fd, err := unix.Openat(d.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|openFlags, 0o600)
	return d.wrapped(osFile{fd}, err)
}

// Touch makes an empty file that must not exist yet.
func (d Dir) Touch(name string) error {
	fd, err := unix.Openat(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|openFlags, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// Sync makes the names in the directory last over a crash of the machine.
func (d Dir) Sync() error { return Again(func() error { return unix.Fsync(d.fd) }) }

func (d Dir) Has(name string) (bool, error) {
	var st unix.Stat_t
	switch err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err {
	case nil:
		return true, nil
	case unix.ENOENT:
		return false, nil
	default:
		return false, err
	}
}

func (d Dir) Mkdir(name string) error { return unix.Mkdirat(d.fd, name, 0o700) }

// MoveDir renames a directory to a name that must be free or an empty
// directory: rename(2) itself refuses everything else.
func (d Dir) MoveDir(name string, to Dir, as string) error {
	return unix.Renameat(d.fd, name, to.fd, as)
}

// MovesOpenFiles: a file can be renamed and removed while it is open.
const MovesOpenFiles = true

// Move renames a file.
func (d Dir) Move(name, as string) error { return unix.Renameat(d.fd, name, d.fd, as) }

func (d Dir) Remove(name string) error { return unix.Unlinkat(d.fd, name, 0) }

// Rmdir removes an empty directory and nothing else.
func (d Dir) Rmdir(name string) error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) }

// List reads the names in the directory, through an open file of its own.
func (d Dir) List() ([]string, error) {
	fd, err := unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	return f.Readdirnames(-1)
}

// IsInUse says that a directory's name is taken by one that is not empty.
func IsInUse(err error) bool { return err == unix.ENOTEMPTY || err == unix.EEXIST }

// MakeRoot opens the engine's directory, made if it is not there.
func MakeRoot(path string) (Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return Dir{}, err
	}
	d, err := openDir(path)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return d, fmt.Errorf("%s is not a directory (a symbolic link to one does not count): give the real path", path)
	}
	if err != nil {
		return d, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if err := d.mine(path); err != nil {
		d.Close()
		return d, err
	}
	return d, nil
}

// mine refuses a directory in which somebody else could replace our files.
func (d Dir) mine(path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, not to this process's user %d: use a directory of your own", path, st.Uid, os.Geteuid())
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("%s can be written by others (mode %04o): chmod 700 it", path, st.Mode&0o7777)
	}
	return nil
}
