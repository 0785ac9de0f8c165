package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sassoftware/go-rpmutils"
)

func onlyOne(t *testing.T, pattern string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(the.first, pattern))
	if err != nil || len(all) == 0 {
		t.Fatalf("no %s", pattern)
	}
	for _, file := range all {
		if strings.Contains(file, runtime.GOARCH) || strings.Contains(file, map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]) {
			return file
		}
	}
	t.Fatalf("none of %q is for this machine", all)
	return ""
}

// root makes a folder in which dpkg knows of no package.
func root(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "var/lib/dpkg/updates"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "var/lib/dpkg/info"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(dir, "var/lib/dpkg", name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The system has nothing but the package: no shell, no library, no other file.
func TestTheDebRunsInAnEmptySystem(t *testing.T) {
	dpkg := need(t, "dpkg")
	if os.Getuid() != 0 {
		missing(t, "root, which dpkg needs")
	}
	dir := root(t)
	must(t, dpkg, "--root="+dir, "--log=/dev/null", "-i", onlyOne(t, "*.deb"))
	for name, mode := range map[string]fs.FileMode{
		"usr/bin/leasehold": 0o755, "usr/share/man/man1/leasehold-run.1.gz": 0o644, "usr/share/doc/leasehold/copyright": 0o644,
		"usr/share/doc/leasehold/THIRD-PARTY-LICENSES.txt": 0o644, "usr/share/bash-completion/completions/leasehold": 0o644,
		"usr/share/doc/leasehold/examples/backup.service": 0o644, "usr/bin": fs.ModeDir | 0o755,
	} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, want %v (%v)", name, info.Mode(), mode, err)
		}
	}
	page, err := os.Open(filepath.Join(dir, "usr/share/man/man1/leasehold-run.1.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	z, err := gzip.NewReader(page)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil || !bytes.Contains(text, []byte(".SH SYNOPSIS")) {
		t.Errorf("the manual page: %v\n%.200s", err, text)
	}
	// It starts itself again through /proc, which a system has.
	c := exec.CommandContext(t.Context(), need(t, "unshare"), "--mount", "sh", "-c", `mkdir "$0/proc" && mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"`,
		dir, "/usr/bin/leasehold", "run", "hello", "--engine", "dir:///locks", "--", "/usr/bin/leasehold", "show", "hello", "--engine", "dir:///locks")
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "held") {
		t.Errorf("a command under a lock: %v\n%s", err, out)
	}
	if out := must(t, dpkg, "--root="+dir, "--log=/dev/null", "--verify", "leasehold"); out != "" {
		t.Errorf("dpkg --verify says\n%s", out)
	}
	must(t, dpkg, "--root="+dir, "--log=/dev/null", "-r", "leasehold")
	if left, _ := filepath.Glob(filepath.Join(dir, "usr/*")); len(left) > 0 {
		t.Errorf("the removed package leaves %q", left)
	}
}

func TestTheManualPageIsReadByMan(t *testing.T) {
	man := need(t, "man")
	dir := t.TempDir()
	page, err := inArchive(the.archive(), "leasehold-run.1")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "leasehold-run.1"), page, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), man, "-P", "cat", "--warnings", "-l", filepath.Join(dir, "leasehold-run.1"))
	c.Env = append(os.Environ(), "MANWIDTH=100", "LC_ALL=C.UTF-8", "MAN_KEEP_FORMATTING=")
	var complaints bytes.Buffer
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil || !strings.Contains(string(out), "--nonblock") || complaints.Len() > 0 {
		t.Errorf("man: %v, %s\n%.500s", err, &complaints, out)
	}
}

func TestTheRPMHasTheSameProgram(t *testing.T) {
	f, err := os.Open(onlyOne(t, "*.rpm"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := rpmutils.ReadRpm(f)
	if err != nil {
		t.Fatal(err)
	}
	nevra, err := p.Header.GetNEVRA()
	if err != nil || nevra.Name != "leasehold" || nevra.Version != "0.9.0" || nevra.Release != "1" {
		t.Errorf("%v: %v", nevra, err)
	}
	if host, err := p.Header.GetString(rpmutils.BUILDHOST); err != nil || host != "localhost" {
		t.Errorf("the package names the host %q that built it: %v", host, err)
	}
	payload, err := p.PayloadReaderExtended()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"/usr/bin/leasehold": 0o100755, "/usr/share/doc/leasehold/LICENSE": 0o100644, "/usr/share/man/man1/leasehold-run.1.gz": 0o100644}
	program, err := os.ReadFile(the.program)
	if err != nil {
		t.Fatal(err)
	}
	for {
		h, err := payload.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if mode, ok := want[h.Name()]; ok {
			delete(want, h.Name())
			if h.Mode() != mode || h.UserName() != "root" {
				t.Errorf("%s has the mode %o, of %s", h.Name(), h.Mode(), h.UserName())
			}
		}
		if h.Name() == "/usr/bin/leasehold" {
			text, err := io.ReadAll(payload)
			if err != nil || !bytes.Equal(text, program) {
				t.Errorf("another program is in it: %d bytes, %v", len(text), err)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("it lacks %v", want)
	}
}
