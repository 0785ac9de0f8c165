package redisson

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	it "leasehold/lab/interop/internal/interoptest"
	"leasehold/lab/servers"
)

// The tests of shared locks conclude from what the driver reports: here it
// reports of Redisson alone.
func TestDriver(t *testing.T) {
	server := servers.Redis(t, nil)
	at := site{nodes: []*servers.RedisServer{server}}
	java := started(t, built(t, Current), Options{Addrs: []string{server.Addr}})
	a, b := java.Thread(1), java.Thread(2)

	t.Run("two threads are one owner", func(t *testing.T) {
		it.Does(t, a, "lock", Lock, "x")
		if got := it.Does(t, b, "tryLock", Lock, "x", "0"); got != "false" {
			t.Errorf("the second thread got %s", got)
		}
		if got := it.Throws(t, b, "unlock", Lock, "x"); got != "IllegalMonitorStateException" {
			t.Errorf("the second thread unlocks: %s", got)
		}
		it.Does(t, a, "unlock", Lock, "x")
	})
	t.Run("an interrupt waits its turn", func(t *testing.T) {
		it.Does(t, a, "lock", Lock, "y")
		waits := at.sleeps(t, b, "lockInterruptibly", Lock, "y")
		it.Does(t, b, "interrupt")
		wasInterrupted(t, it.Answered(t, waits))
		it.Does(t, a, "unlock", Lock, "y")
	})
	t.Run("times are of another clock", func(t *testing.T) {
		first, err1 := a.Do(it.Within(t), "isLocked", Lock, "z")
		second, err2 := b.Do(it.Within(t), "isLocked", Lock, "z")
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if !(first.Began < first.Ended && first.Ended < second.Began && second.Began < second.Ended) {
			t.Errorf("one after the other: %+v %+v", first, second)
		}
	})
	t.Run("an unknown command hangs", func(t *testing.T) {
		if got := it.Throws(t, a, "dance", Lock, "z"); got != "IllegalArgumentException" {
			t.Error(got)
		}
	})
	t.Run("who waits for a dead process waits for ever", func(t *testing.T) {
		it.Does(t, a, "lock", Lock, "w")
		waits := b.Go("lock", Lock, "w")
		java.Kill()
		if got := it.Answered(t, waits); got.Err == nil {
			t.Error("it obtained the lock and was dead")
		}
		if got := it.Answered(t, a.Go("isLocked", Lock, "w")); got.Err == nil {
			t.Error("a dead process answered")
		}
	})
}

func TestAnotherReleaseThanAskedForIsRefused(t *testing.T) {
	server := servers.Redis(t, nil)
	wrong := *built(t, Old)
	wrong.Release = Current
	p, err := wrong.Start(it.Within(t), Options{Addrs: []string{server.Addr}})
	if err == nil {
		p.Kill()
		t.Fatal("Redisson " + Old + " passed for " + Current)
	}
}

// What a machine lacks may be skipped; a program that does not compile may not.
func TestBuildTellsMissingFromWrong(t *testing.T) {
	for name, c := range map[string]struct {
		says    string
		missing bool
	}{
		"no registry":       {"[ERROR] Could not transfer artifact org.redisson:redisson:pom:4.7.0 from/to central", true},
		"no network at all": {"[ERROR] Non-resolvable parent POM: repo.maven.apache.org: Unknown host", true},
		"a wrong program":   {"[ERROR] COMPILATION ERROR : Main.java:[12,3] ';' expected", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := "#!/bin/sh\necho \"" + c.says + "\"\nexit 1\n"
			for _, program := range []string{"mvn", "javac"} {
				if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			if _, err := Build(it.Within(t), Current); err == nil || errors.Is(err, ErrMissing) != c.missing {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("no Maven", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		if _, err := Build(it.Within(t), Current); !errors.Is(err, ErrMissing) {
			t.Errorf("%v", err)
		}
	})
}
