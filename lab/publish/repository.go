package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// git runs git in a folder, and returns what it printed.
func git(dir string, args ...string) (string, error) {
	var said bytes.Buffer
	c := exec.Command("git", args...)
	c.Dir, c.Stderr = dir, &said
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("git %s in %s: %w\n%s", strings.Join(args, " "), dir, err, &said)
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

// root is the folder of this tree.
func root() (string, error) {
	out, err := git(".", "rev-parse", "--show-toplevel")
	return filepath.Clean(out), err
}

// moduleOf is the path of the root module of a tree.
func moduleOf(tree string) (string, error) {
	text, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	return modfile.ModulePath(text), err
}

// source refuses a tree that is published already: nothing in it has the name that is replaced.
func source(from string) error {
	name, err := moduleOf(from)
	if err == nil && name != here {
		err = fmt.Errorf("this tree is published, as %s: publish from the one whose module is %s", name, here)
	}
	return err
}

// ready refuses a tree that is not yet what its version promises.
func (r release) ready(from string) error {
	if changed, err := git(from, "status", "--porcelain"); err != nil {
		return err
	} else if changed != "" {
		return fmt.Errorf("this tree has changes that are not committed: commit them or take them back\n%s", changed)
	}
	text, err := os.ReadFile(filepath.Join(from, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), "## "+r.Version+", ")
		if found && strings.Contains(rest, "not released") {
			return fmt.Errorf("CHANGELOG.md says that %s is %s: write the date there, and commit it", r.Version, rest)
		} else if found {
			return nil
		}
	}
	return fmt.Errorf("CHANGELOG.md has no heading \"## %s, DATE\": write what users notice, and commit it", r.Version)
}

// prepare empties a clone of what was published before, so that what is gone from this tree is gone
// there. A folder that does not exist is left to write.
func (r release) prepare(out string) error {
	if _, err := os.Lstat(out); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	name, err := moduleOf(out)
	if err != nil || name != r.Module {
		return fmt.Errorf("%s exists and is no clone of %s: give a clone of what was published, or a new folder", out, r.Module)
	}
	// A prefix would be the folder of a repository around this one.
	if prefix, err := git(out, "rev-parse", "--show-prefix"); err != nil || prefix != "" {
		return fmt.Errorf("%s is not the top folder of a clone: give that", out)
	}
	changed, err := git(out, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("%s has changes that are not committed: give a fresh clone\n%s", out, changed)
	}
	tags, err := git(out, "tag")
	if err != nil {
		return err
	}
	for tag := range strings.FieldsSeq(tags) {
		if tag == r.Version || strings.HasSuffix(tag, "/"+r.Version) {
			return fmt.Errorf("%s has the tag %s: a published version never changes; give the next one", out, tag)
		}
	}
	_, err = git(out, "rm", "-rq", ".")
	return err
}

// commit adds one commit to the repository in the folder, which it makes if there is none, and
// a tag for each module: a nested module's begins with its folder.
func (r release) commit(modules []string, out string) error {
	commands := [][]string{{"add", "-A"}, {"-c", "user.name=leasehold", "-c", "user.email=leasehold@invalid", "commit", "-q", "-m", "leasehold " + r.Version}}
	if _, err := os.Lstat(filepath.Join(out, ".git")); err != nil {
		commands = slices.Insert(commands, 0, []string{"init", "-q"})
	}
	for _, dir := range modules {
		tag := r.Version
		if dir != "." {
			tag = dir + "/" + r.Version
		}
		commands = append(commands, []string{"tag", tag})
	}
	for _, args := range commands {
		if _, err := git(out, args...); err != nil {
			return err
		}
	}
	return nil
}
