package filelock

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
)

const note, warning, problem = engine.SeverityNote, engine.SeverityWarning, engine.SeverityProblem

func examined(t testing.TB, dir string, o *Options) testutil.Findings {
	t.Helper()
	return testutil.Examined(t, func(ctx context.Context, dir string, eo engine.ExamineOptions, found func(engine.Finding)) error {
		return Examine(ctx, dir, o, eo, found)
	}, dir, engine.ExamineOptions{})
}

// entries are all paths below a directory.
func entries(t testing.TB, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error { n++; return err })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestExamine(t *testing.T) {
	above := t.TempDir()
	dir := filepath.Join(above, "locks")
	f := examined(t, dir, nil)
	f.Healthy(t, warning)
	f.Want(t, note, "the directory is not there", dir)
	if n := entries(t, above); n != 1 {
		t.Errorf("the examination made something: %d entries", n)
	}
	e, err := New(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	before := entries(t, above)
	if f := examined(t, dir, nil); len(f) > 0 {
		t.Errorf("a healthy directory has %s", f)
	}
	if after := entries(t, above); after != before {
		t.Errorf("%d entries, %d before", after, before)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	examined(t, dir, nil).Want(t, problem, "others can use the directory", "chmod 700")
	f = examined(t, fmt.Sprint("/proc/", os.Getpid()), nil)
	f.Want(t, problem, "the file system is not known to be local", "type 0x9fa0")
	f.None(t, "the file system is nearly full")
	examined(t, fmt.Sprint("/proc/", os.Getpid()), &Options{Force: true}).Want(t, warning, "the file system is not known to be local")
	for _, wrong := range []string{"/proc/version", "/proc/self/exe"} {
		if err := Examine(t.Context(), wrong, nil, engine.ExamineOptions{}, func(engine.Finding) {}); err == nil {
			t.Errorf("%s is examined", wrong)
		}
	}
}

func TestExamineFewFiles(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = 50
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	examined(t, t.TempDir(), nil).Want(t, warning, "this process may open few files", "50")
}

func TestExamineFileSystem(t *testing.T) {
	small := mount(t, "size=1m,nr_inodes=100,mode=0700", 0)
	examined(t, small, nil).Want(t, warning, "the file system is nearly full", " bytes left", " inodes left")
	if err := os.WriteFile(filepath.Join(small, "filler"), make([]byte, 1<<20), 0o600); err != nil {
		t.Log(err) // it need not fit wholly
	}
	examined(t, small, nil).Want(t, problem, "the file system is nearly full", "has 0 bytes left")
	if err := unix.Mount("", small, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	examined(t, small, nil).Want(t, problem, "the file system only reads", small)
}
