// Command publish writes this tree as it is published: under a public path, at a version,
// as a git repository with one commit and the tags that Go wants.
//
//	make publish-as MODULE=example.com/locks/leasehold VERSION=v0.9.0 OUT=DIR
//
// In that tree every module requires the others at that version. It has no replace line and no
// go.work; `make work` makes one again for those who work on it. The README says go get where
// this one says clone. Nothing else differs: a person pushes it, with its tags, to where MODULE
// is served from.
//
// With -proxy DIR it also writes the modules as a module proxy of files
// (GOPROXY=file://DIR), as an outside user gets them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "publish:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var r release
	flags := flag.NewFlagSet("publish", flag.ContinueOnError)
	flags.StringVar(&r.Module, "module", "", "the public `path` of the root module")
	flags.StringVar(&r.Version, "version", "", "the version of all modules: v0.9.0")
	out := flags.String("out", "", "the `folder` to write, which does not exist yet")
	proxy := flags.String("proxy", "", "also write a module proxy of files to this `folder`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	if *out == "" {
		return errors.New("no folder to write: give -out")
	}
	from, err := root()
	if err != nil {
		return err
	}
	modules, err := r.write(from, *out)
	if err != nil {
		return err
	}
	if *proxy != "" {
		if err := r.serve(modules, *out, *proxy); err != nil {
			return err
		}
	}
	if err := r.commit(modules, *out); err != nil {
		return err
	}
	fmt.Printf("%s has %s at %s, %d modules: push it with --tags\n", *out, r.Module, r.Version, len(modules))
	return nil
}

// release is what is published.
type release struct {
	Module  string // of the root
	Version string
}

func (r release) check() error {
	if err := module.CheckPath(r.Module); err != nil {
		return fmt.Errorf("-module: %w", err)
	}
	if semver.Canonical(r.Version) != r.Version {
		return fmt.Errorf("-version %q: not a version as Go writes it: v0.9.0", r.Version)
	}
	if _, major, ok := module.SplitPathVersion(r.Module); !ok || !module.MatchPathMajor(r.Version, major) {
		return fmt.Errorf("-version %s: Go wants /%s at the end of the path %s", r.Version, semver.Major(r.Version), r.Module)
	}
	return nil
}

// root is the folder of this tree.
func root() (string, error) {
	out, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("find the tree: %w", err)
	}
	return filepath.Clean(string(out[:len(out)-1])), nil
}

// commit makes the folder a repository with one commit and a tag for each module: a nested
// module's begins with its folder.
func (r release) commit(modules []string, out string) error {
	commands := [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=leasehold", "-c", "user.email=leasehold@invalid", "commit", "-q", "-m", "leasehold " + r.Version}}
	for _, dir := range modules {
		tag := r.Version
		if dir != "." {
			tag = dir + "/" + r.Version
		}
		commands = append(commands, []string{"tag", tag})
	}
	for _, args := range commands {
		git := exec.Command("git", args...)
		git.Dir, git.Stderr = out, os.Stderr
		if err := git.Run(); err != nil {
			return fmt.Errorf("git %s: %w", args[0], err)
		}
	}
	return nil
}
