//go:build unix

package formats

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/lab/servers"
)

var (
	rolling = flag.Bool("rolling", false, "build the command of an older commit, and have both versions lock at once")
	older   = flag.String("rolling.commit", "", "the older `commit`; by default the newest tag v*, or else 100 commits ago")
)

// git asks git about this tree.
func git(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", args...).Output()
	return strings.TrimSpace(string(out)), err
}

// olderCommit is a commit before this one, or skips aloud.
func olderCommit(t *testing.T) string {
	t.Helper()
	commit := *older
	if commit == "" {
		commit, _ = git(t, "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD~1")
	}
	if commit == "" {
		commit = "HEAD~100"
	}
	found, err := git(t, "rev-parse", "--verify", "--quiet", commit+"^{commit}")
	if err != nil {
		servers.Missing(t, "the commit "+commit+" is not here: this clone is shallow, or has no such commit")
	}
	return found
}

// build builds the command of a tree.
func build(t *testing.T, tree, to string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "build", "-o", to, "./cmd/leasehold")
	c.Dir = tree
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build in %s: %v\n%s", tree, err, out)
	}
	return to
}

// Two versions of the command lock one name by turns, on each store, while each of them may find
// the other in front of it or behind. No update of the counter is lost, and each sees the
// other's claims. Without -rolling both are this version.
func TestTwoVersionsShareALock(t *testing.T) {
	if !*rolling { // what compares them is tested all the same, on the cheapest store
		today := build(t, filepath.Join("..", ".."), filepath.Join(t.TempDir(), "today"))
		again := filepath.Join(filepath.Dir(today), "again")
		if err := os.Link(today, again); err != nil {
			t.Fatal(err)
		}
		shared(t, []string{today, again}, "dir://"+t.TempDir())
		return
	}
	commit := olderCommit(t)
	root, err := git(t, "rev-parse", "--show-toplevel")
	if err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(t.TempDir(), "older")
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", `mkdir "$2" && git -C "$0" archive "$1" | tar -x -C "$2"`, root, commit, tree).CombinedOutput(); err != nil {
		t.Fatalf("the tree of %s: %v\n%s", commit, err, out)
	}
	if _, err := os.Stat(filepath.Join(tree, "go.work")); err != nil { // a published one
		if out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", tree, "work").CombinedOutput(); err != nil {
			t.Fatalf("a workspace of %s: %v\n%s", commit, err, out)
		}
	}
	bin := t.TempDir()
	versions := []string{build(t, tree, filepath.Join(bin, "older")), build(t, root, filepath.Join(bin, "today"))}
	t.Logf("the older version is %.12s", commit)

	for name, url := range map[string]func(t *testing.T) string{
		"dir":      func(t *testing.T) string { return "dir://" + t.TempDir() },
		"redis":    func(t *testing.T) string { u, _ := redis("")(t); return u },
		"plain":    func(t *testing.T) string { u, _ := redis("?layout=plain")(t); return u },
		"redisson": func(t *testing.T) string { u, _ := redisson("lock")(t); return u },
		"redlock":  func(t *testing.T) string { u, _ := redlock("")(t); return u },
		"postgres": func(t *testing.T) string {
			return servers.Postgres(t, nil).URL("", "")
		},
		"mysql":     func(t *testing.T) string { return servers.MariaDB(t, nil).URL("", "") },
		"etcd":      func(t *testing.T) string { u, _ := etcd(t); return u },
		"zookeeper": func(t *testing.T) string { u, _ := zookeeper("")(t); return u },
	} {
		t.Run(name, func(t *testing.T) { shared(t, versions, url(t)) })
	}
}

func shared(t *testing.T, versions []string, url string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	env := append(os.Environ(), "LEASEHOLD_ENGINE="+url)
	leasehold := func(version string, args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, version, args...)
		c.Env = env
		return c
	}
	// Each sees the other.
	for i, v := range versions {
		other := versions[1-i]
		out, err := leasehold(v, "run", "seen", "--label", "of "+filepath.Base(v), "--", other, "show", "seen").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "of "+filepath.Base(v)) {
			t.Errorf("%s shows of %s: %v\n%s", other, v, err, out)
		}
		if out, err := leasehold(v, "run", "seen", "--", other, "run", "seen", "--nonblock", "--", "true").CombinedOutput(); err == nil || !strings.Contains(string(out), "held") {
			t.Errorf("%s obtains what %s holds: %v\n%s", other, v, err, out)
		}
	}
	const workers, rounds = 6, 5
	counter := filepath.Join(t.TempDir(), "counter")
	if err := os.WriteFile(counter, []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for range rounds {
				c := leasehold(versions[w%2], "run", "counter", "--", "sh", "-c", `n=$(cat "$0"); sleep 0.01; echo $((n + 1)) >"$0"`, counter)
				if out, err := c.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", versions[w%2], err, out)
				}
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(counter)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || n != workers*rounds {
		t.Errorf("%d updates left %s", workers*rounds, fmt.Sprint(n, err))
	}
}
