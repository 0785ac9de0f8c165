// Command publish writes this tree as it is published: under a public path, at a version,
// as a git repository with one commit for each release and the tags that Go wants.
//
//	make publish-as MODULE=example.com/locks/leasehold VERSION=v0.9.0 OUT=DIR
//
// In that tree every module requires the others at that version. It has no replace line and no
// go.work; `make work` makes one again for those who work on it. Its pages say go get where
// these say clone. Nothing else differs: a person pushes it, with its tags, to where MODULE
// is served from.
//
// DIR is a new folder, or for a later release a clone of what was published: that gets one commit
// more. CONTRIBUTING.md says how a release is made.
//
// With -proxy DIR it also writes the modules as a module proxy of files
// (GOPROXY=file://DIR), as an outside user gets them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

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
	out := flags.String("out", "", "the `folder` to write: a new one, or a clone of what was published before")
	trial := flags.Bool("trial", false, "for tests: publish what is not committed, and what has no date in CHANGELOG.md")
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
	modules, err := r.publish(from, *out, *proxy, *trial)
	if err != nil {
		return err
	}
	fmt.Printf("%s has %s at %s, %d modules: push it with --tags\n", *out, r.Module, r.Version, len(modules))
	return nil
}

// publish writes a tree and its repository, and returns the folders of its modules.
func (r release) publish(from, out, proxy string, trial bool) ([]string, error) {
	if err := source(from); err != nil {
		return nil, err
	}
	if !trial {
		if err := r.ready(from); err != nil {
			return nil, err
		}
	}
	if err := r.prepare(out); err != nil {
		return nil, err
	}
	modules, err := r.write(from, out)
	if err != nil {
		return nil, err
	}
	if proxy != "" {
		if err := r.serve(modules, out, proxy); err != nil {
			return nil, err
		}
	}
	return modules, r.commit(modules, out)
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
	// Go wants the major version at the end of each module's path, and public puts it in the middle.
	if major := semver.Major(r.Version); major != "v0" && major != "v1" {
		return fmt.Errorf("-version %s: the nested modules would have no /%s at the end of their paths, which Go refuses: give a version below v2, or write public for it first", r.Version, major)
	}
	return nil
}
