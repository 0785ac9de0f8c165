package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"leasehold/lab/servers"
	"leasehold/torture/history"
)

// unified is where cgroup v2 is mounted. It skips where this process cannot use it.
func unified(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if w := strings.Fields(line); w[2] == "cgroup2" && os.Geteuid() == 0 {
			return w[1]
		}
	}
	servers.Missing(t, "only root can make groups of cgroup v2")
	return ""
}

// The kernel freezes clients and loses their packets, each with an effect that was seen, and
// nothing of that is left when the trial is over.
func TestTortureByTheKernel(t *testing.T) {
	t.Parallel()
	unified(t)
	p, _ := redisPlace(t)
	long := "30s"
	if testing.Short() {
		long = "18s"
	}
	// The seed chooses, and each kind of loss comes sooner or later. A busy machine has fewer faults
	// in a trial.
	bits := map[string]int{}
	enough := func() bool { return bits["freeze"] > 0 && len(bits) >= 3 }
	for seed := 5; seed < 9 && !enough(); seed++ {
		dir := p.file(fmt.Sprint("out", seed))
		code, out, text := p.leasehold("torture", "--for", long, "--ttl", "400ms", "--clients", "3", "--names", "4", "--seed", fmt.Sprint(seed),
			"--nemesis", "freeze,packets", "--out", dir)
		t.Log(out, text)
		if code != 0 && code != codeVoid || text != "" {
			t.Fatalf("exit code %d: %s", code, text)
		}
		named := map[int]string{}
		for _, e := range historyOf(t, dir) {
			switch e.Kind {
			case history.Strike:
				named[e.Fault] = e.Named
				if e.Named == "packets" {
					_, what, _ := strings.Cut(", "+e.Target, "clients, ")
					named[e.Fault] = what
				}
			case history.Bit:
				bits[named[e.Fault]]++
			}
		}
		t.Logf("faults with an effect: %v", bits)
	}
	if !enough() {
		t.Errorf("faults with an effect: %v", bits)
	}
}

// A trial is killed while its clients are frozen: none of them is left.
func TestTortureKilledWhileClientsAreFrozen(t *testing.T) {
	t.Parallel()
	mount := unified(t)
	p := newPlace(t)
	x := p.start("torture", "--ttl", "3s", "--clients", "2", "--nemesis", "freeze", "--out", p.file("out"))
	var group string // of the trial
	until(t, "a client is in its group", func() bool {
		children := contents(t, fmt.Sprintf("/proc/%d/task/*/children", x.Process.Pid))
		for _, child := range strings.Fields(children) {
			_, path, found := strings.Cut(contents(t, "/proc/"+child+"/cgroup"), "0::")
			if found && strings.Contains(path, "leasehold-torture-") {
				group = filepath.Join(mount, filepath.Dir(strings.TrimSpace(path)))
			}
		}
		return group != ""
	})
	t.Cleanup(func() {
		leaves, err := filepath.Glob(filepath.Join(group, "c*", "cgroup.procs"))
		if err != nil {
			t.Error(err)
		}
		for _, leaf := range leaves {
			if err := os.Remove(filepath.Dir(leaf)); err != nil {
				t.Error(err)
			}
		}
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	})
	events := func() string { return contents(t, group+"/cgroup.events") + contents(t, group+"/*/cgroup.events") }
	until(t, "a client is frozen", func() bool { return strings.Contains(events(), "frozen 1") })
	if err := x.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	x.wait(t)
	until(t, "no client is left", func() bool { return !strings.Contains(events(), "populated 1") })
}

// Without root the kernel does nothing for a trial, which says so and goes on.
func TestTortureWithoutRoot(t *testing.T) {
	t.Parallel()
	p, _ := redisPlace(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	x := p.startCmd(asNobody(t, dir, "torture", "--ttl", "200ms", "--for", "3s", "--clients", "1", "--nemesis", "freeze,packets,kill", "--out", filepath.Join(dir, "out")))
	if code := x.wait(t); code != codeVoid {
		t.Errorf("exit code %d: %s", code, x.err.String())
	}
	for _, name := range []string{"freeze", "packets"} {
		if want := name + " was left out: control groups cannot be made: "; !strings.Contains(x.err.String(), want) {
			t.Errorf("no %q in %s", want, x.err.String())
		}
	}
	if n := historyOf(t, filepath.Join(dir, "out"))[0].Run.Nemeses; len(n) != 1 || n[0] != "kill" {
		t.Errorf("%q", n)
	}
}

// contents are those of all files of a pattern that can be read.
func contents(t *testing.T, pattern string) (all string) {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		b, _ := os.ReadFile(path) // what has ended meanwhile says nothing
		all += string(b)
	}
	return all
}
