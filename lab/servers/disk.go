package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Disk is a file system (ext4) for the folders of servers, whose power can be cut. It
// then forgets all that was not synced. It lies in a file. A program that is killed with SIGKILL leaves
// it mounted.
type Disk struct {
	dir, image string
	mounted    bool
}

// diskSize is what a Disk has room for. The file takes what is written.
const diskSize = 2 << 30

// PowerlessDisk makes one for a test.
func PowerlessDisk(t TB) *Disk {
	t.Helper()
	Need(t, "mkfs.ext4", "mount", "umount")
	d, err := NewDisk()
	if errors.Is(err, ErrNoDisk) {
		Missing(t, err.Error())
	}
	if err != nil {
		t.Fatalf("a disk: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Logf("closing a disk: %v", err)
		}
	})
	return d
}

// ErrNoDisk is returned where this process can make no disk.
var ErrNoDisk = errors.New("only root can make a disk whose power is cut, where there are loop devices")

// CanMakeDisk returns [ErrNoDisk] if this process can make no disk.
func CanMakeDisk() error {
	if _, err := os.Stat("/dev/loop-control"); err != nil || os.Geteuid() != 0 {
		return ErrNoDisk
	}
	return nil
}

// NewDisk makes one for a program. Close removes it when its servers have ended.
func NewDisk() (_ *Disk, err error) {
	if err := CanMakeDisk(); err != nil {
		return nil, err
	}
	base, err := os.MkdirTemp("", "lh-disk")
	if err != nil {
		return nil, err
	}
	d := &Disk{dir: filepath.Join(base, "d"), image: filepath.Join(base, "image")}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	// A server that runs as somebody else passes through.
	err = errors.Join(os.Chmod(base, 0o755), os.Mkdir(d.dir, 0o755), os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, diskSize))
	if err == nil {
		err = system("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", d.image)
	}
	if err == nil {
		err = d.mount()
	}
	return d, err
}

func (d *Disk) mount() error {
	// The journal is written for a sync only, so that little survives by chance.
	if err := system("mount", "-o", "loop,commit=3600", d.image, d.dir); err != nil {
		return err
	}
	d.mounted = true
	return os.Chmod(d.dir, 0o755)
}

// tempDir makes a folder on the disk; without a disk, where temporary folders are.
func (d *Disk) tempDir(pattern string) (string, error) {
	if d == nil {
		return os.MkdirTemp("", pattern)
	}
	return os.MkdirTemp(d.dir, pattern)
}

// Sync syncs all files of the disk. Programs that set up a server do not always do that.
func (d *Disk) Sync() error { return d.folder(syncAll) }

// folder calls f with the descriptor of the folder.
func (d *Disk) folder(f func(fd uintptr) error) error {
	dir, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	return errors.Join(f(dir.Fd()), dir.Close())
}

// CutPower cuts the power, and gives it back. All that was not synced is gone. It returns how
// many bytes it lost of a file that it wrote itself, without a sync. Kill all servers on the
// disk before.
//
// It kills every process that still has its working folder there, since no program runs on
// without power. PostgreSQL leaves such processes: a backend that waits for a lock of another
// one does not notice that their first process has ended, and waits for ever if the other ended
// because its disk was gone.
func (d *Disk) CutPower() (lost int, err error) {
	if err := d.killAll(); err != nil {
		return 0, err
	}
	const canary = "not synced"
	path := filepath.Join(d.dir, "canary")
	if err := os.WriteFile(path, []byte(canary), 0o600); err != nil {
		return 0, err
	}
	if err := d.folder(shutDown); err != nil {
		return 0, fmt.Errorf("cutting the power of %s: %w", d.dir, err)
	}
	if err := errors.Join(d.unmount(), d.mount()); err != nil {
		return 0, err
	}
	left, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	return len(canary) - len(left), nil
}

func (d *Disk) unmount() error {
	if !d.mounted {
		return nil
	}
	d.mounted = false
	// A process that was killed ends a moment later.
	return until(startBound, func() error { return system("umount", d.dir) })
}

// killAll kills the processes that have their working folder on the disk. One of them may
// begin another meanwhile, so it looks again until there are none.
func (d *Disk) killAll() error {
	return until(startBound, func() error {
		all, err := workingIn(d.dir)
		if err != nil || len(all) == 0 {
			return err
		}
		for _, pid := range all {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // it may have ended
			}
		}
		return fmt.Errorf("processes %v run on in %s", all, d.dir)
	})
}

// Close removes the disk.
func (d *Disk) Close() error {
	return errors.Join(d.unmount(), os.RemoveAll(filepath.Dir(d.dir)))
}

// system runs a program that says nothing if all is well.
func system(program string, args ...string) error {
	path, err := find(program)
	if err != nil {
		return Installed(program)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	if out, err := exec.CommandContext(ctx, path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}
