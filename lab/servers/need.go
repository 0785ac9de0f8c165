package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// TB is the part of testing.TB that this package needs, so that programs which
// are no tests can be built without package testing.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
	Failed() bool
}

// Need skips the test if a program is not installed. With LEASEHOLD_REQUIRE=all
// in the environment it fails instead, so that nothing is skipped unseen.
func Need(t TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if err := Installed(p); err != nil {
			Missing(t, err.Error())
		}
	}
}

// Missing skips, or fails under LEASEHOLD_REQUIRE=all, for any reason.
func Missing(t TB, why string) {
	t.Helper()
	if os.Getenv("LEASEHOLD_REQUIRE") == "all" {
		t.Fatalf("%s, and LEASEHOLD_REQUIRE=all forbids skipping", why)
	}
	t.Skipf("SKIPPED: %s", why)
}

// LeftOut skips what takes long in a run with -short: the caller asks whether it is one. With
// LEASEHOLD_REQUIRE=all in the environment it returns, and the test goes on: CI leaves
// nothing out.
func LeftOut(t TB, why string) {
	t.Helper()
	if os.Getenv("LEASEHOLD_REQUIRE") != "all" {
		t.Skipf("SKIPPED: %s: make test-long runs it", why)
	}
}

// Installed says what to do if a program is not found.
func Installed(program string) error {
	if _, err := find(program); err != nil {
		return fmt.Errorf("%s is not installed: run `make deps`", program)
	}
	return nil
}

// find also looks where Debian keeps servers, which an ordinary user's PATH
// leaves out. What Debian has in the PATH as psql is a program in Perl that looks for the
// right version: 36 ms of CPU for each of the hundreds of queries of a run. So psql, like
// pg_basebackup, is the one beside the server, if there is one.
func find(program string) (string, error) {
	if program == "psql" || program == "pg_basebackup" {
		if server, err := find("postgres"); err == nil {
			if path, err := filepath.EvalSymlinks(server); err == nil {
				server = path
			}
			if path, err := exec.LookPath(filepath.Join(filepath.Dir(server), program)); err == nil {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	dirs := []string{"/usr/sbin", "/sbin", "/usr/local/sbin"}
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well formed
	slices.Reverse(versions)
	for _, dir := range append(dirs, versions...) {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", err
}

// built is the path of a program that `make deps` builds into .deps/bin of the
// repository, which is somewhere above: tests run in their package's folder.
// Empty: it is not there.
func built(program string) string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		if path, err := exec.LookPath(filepath.Join(dir, ".deps", "bin", program)); err == nil {
			return path
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// closing ties a server to a test: it is closed at the end, and a failed test
// shows the last lines of its log.
func closing(t TB, logs func() string, closer func() error) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", logs())
		}
		if err := closer(); err != nil {
			t.Logf("closing a server: %v", err)
		}
	})
}
