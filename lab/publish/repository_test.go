package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leasehold/lab/servers"
)

// small is the source of a release that has everything a release needs.
func small(t *testing.T) (dir string, write func(name, text string), commit func()) {
	t.Helper()
	servers.Need(t, "git")
	dir = t.TempDir()
	write = func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commit = func() {
		t.Helper()
		for _, args := range [][]string{{"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@invalid", "commit", "-q", "-m", "x"}} {
			must(t, dir, args...)
		}
	}
	must(t, dir, "init", "-q")
	write("go.mod", "module "+here+"\n\ngo 1.26.0\n")
	write("a/go.mod", "module "+here+"/a\n\ngo 1.26.0\n\nrequire "+here+" v0.0.0\n\nreplace "+here+" => ..\n")
	write("CHANGELOG.md", "# Changes\n\n## v0.9.1, 2026-12-24\n\n## v0.9.0, 2026-12-01\n")
	commit()
	return dir, write, commit
}

func must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := git(dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The second release is one commit more in the same repository, without what is gone.
func TestReleasesShareOneHistory(t *testing.T) {
	from, write, commit := small(t)
	write("a/old.go", "package a\n")
	commit()
	out := filepath.Join(t.TempDir(), "out")
	publish := func(version string) error {
		_, err := release{public, version}.publish(from, out, "", false)
		return err
	}
	if err := publish("v0.9.0"); err != nil {
		t.Fatal(err)
	}
	must(t, from, "rm", "-q", "a/old.go")
	write("a/new.go", "package a\n")
	commit()

	if err := publish("v0.9.0"); err == nil || !strings.Contains(err.Error(), "has the tag") {
		t.Errorf("a version that is there, once more: %v", err)
	}
	left := filepath.Join(out, "left")
	if err := os.WriteFile(left, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := publish("v0.9.1"); err == nil || !strings.Contains(err.Error(), "not committed") {
		t.Errorf("into a folder with changes: %v", err)
	}
	if err := os.Remove(left); err != nil {
		t.Fatal(err)
	}
	if log := must(t, out, "log", "--format=%s"); log != "leasehold v0.9.0" {
		t.Errorf("what was refused left commits: %q", log)
	}

	clone := filepath.Join(t.TempDir(), "clone")
	must(t, ".", "clone", "-q", out, clone)
	out = clone
	if err := publish("v0.9.1"); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ got, want string }{
		"commits":             {must(t, out, "log", "--format=%s"), "leasehold v0.9.1\nleasehold v0.9.0"},
		"tags":                {must(t, out, "tag"), "a/v0.9.0\na/v0.9.1\nv0.9.0\nv0.9.1"},
		"tags of the commits": {must(t, out, "rev-parse", "a/v0.9.0", "v0.9.1"), must(t, out, "rev-parse", "HEAD~1", "HEAD")},
		"files":               {must(t, out, "ls-files"), "CHANGELOG.md\na/go.mod\na/new.go\ngo.mod"},
		"changes left":        {must(t, out, "status", "--porcelain"), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", what, c.got, c.want)
		}
	}
}

// What cannot be undone once it is pushed is refused before anything is written.
func TestATreeThatIsNotReadyIsRefused(t *testing.T) {
	for what, c := range map[string]struct {
		version string
		change  func(write func(name, text string), commit func())
		says    string
	}{
		"a change that is not committed": {"v0.9.0", func(write func(name, text string), _ func()) { write("new.txt", "") }, "not committed"},
		"no heading":                     {"v0.9.2", func(func(name, text string), func()) {}, "no heading"},
		"no date": {"v0.9.0", func(write func(name, text string), commit func()) {
			write("CHANGELOG.md", "# Changes\n\n## v0.9.0, not released yet\n")
			commit()
		}, "write the date"},
		"published already": {"v0.9.0", func(write func(name, text string), commit func()) {
			write("go.mod", "module example.com/other\n")
			commit()
		}, "this tree is published"},
		"a page that is written anew": {"v0.9.0", func(write func(name, text string), commit func()) {
			write("README.md", "# Another\n")
			commit()
		}, "cannot change it"},
	} {
		t.Run(what, func(t *testing.T) {
			from, write, commit := small(t)
			c.change(write, commit)
			out := filepath.Join(t.TempDir(), "out")
			if _, err := (release{public, c.version}).publish(from, out, "", false); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want an error that says %q", err, c.says)
			}
			if _, err := os.Lstat(filepath.Join(out, ".git")); err == nil {
				t.Error("there is a repository to push")
			}
		})
	}
}

// A folder of something else is never emptied.
func TestAnotherFolderIsLeftAlone(t *testing.T) {
	from, _, _ := small(t)
	other, write, commit := small(t)
	write("sub/go.mod", "module "+public+"\n")
	commit()
	for _, out := range []string{t.TempDir(), other, filepath.Join(other, "sub")} {
		if _, err := (release{public, "v0.9.0"}).publish(from, out, "", false); err == nil || !strings.Contains(err.Error(), "give ") {
			t.Errorf("%s: %v", out, err)
		}
	}
	if left := must(t, other, "status", "--porcelain"); left != "" {
		t.Errorf("what was refused changed it: %s", left)
	}
}
