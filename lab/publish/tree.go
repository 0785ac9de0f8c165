package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// here is the path of the root module in this tree.
const here = "leasehold"

// write writes the tree to out, and returns the folders of its modules.
func (r release) write(from, out string) (modules []string, err error) {
	list, err := git(from, "ls-files", "-z")
	if err != nil {
		return nil, err
	}
	files := strings.Split(strings.TrimSuffix(list, "\x00"), "\x00")
	rename := r.renaming(files)
	for _, name := range files {
		if name == "go.work" || name == "go.work.sum" {
			continue
		}
		src, dst := filepath.Join(from, name), filepath.Join(out, r.fileName(name))
		info, err := os.Lstat(src)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
			return nil, err
		}
		if info.Mode()&os.ModeSymlink != 0 {
			to, err := os.Readlink(src)
			if err == nil {
				err = os.Symlink(to, dst)
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		body, err := os.ReadFile(src)
		if err != nil {
			return nil, err
		}
		switch {
		case path.Base(name) == "go.mod":
			modules = append(modules, path.Dir(name))
			body, err = r.goMod(name, body)
		case !utf8.Valid(body) || bytes.ContainsRune(body, 0):
		case path.Ext(name) == ".go":
			// The public path sorts among other imports in another place, and is longer.
			body, err = format.Source(rename(body))
		default:
			body, err = r.page(name, r.lists(name, rename(body)))
		}
		if err == nil {
			err = os.WriteFile(dst, body, info.Mode().Perm())
		}
		if err != nil {
			return nil, err
		}
	}
	return modules, nil
}

// renaming returns what puts the public path in the place of this tree's, in Go and in all that
// names packages: pages, planted faults, make. A name that goes on after leasehold/ with no
// folder of packages is something else, such as a key of a store.
func (r release) renaming(files []string) func([]byte) []byte {
	var folders []string
	for _, name := range files {
		if first, _, nested := strings.Cut(name, "/"); nested && path.Ext(name) == ".go" && !slices.Contains(folders, first) {
			folders = append(folders, regexp.QuoteMeta(first))
		}
	}
	below := regexp.MustCompile(`(?m)(^|[^\w./@-])` + here + `(/(?:` + strings.Join(folders, "|") + `)\b)`)
	// The root package: a line of an import, also in a page and in a patch.
	alone := regexp.MustCompile(`(?m)^([ +-]?(?:import )?\s*(?:[\w.]+ )?")` + here + `(")((?: //.*)?)$`)
	about := regexp.MustCompile(`(?m)^(# package: )` + here + `$`)
	return func(text []byte) []byte {
		text = below.ReplaceAll(text, []byte("${1}"+r.Module+"${2}"))
		text = alone.ReplaceAll(text, []byte("${1}"+r.Module+"${2}${3}"))
		return about.ReplaceAll(text, []byte("${1}"+r.Module))
	}
}

var (
	ofAPI   = regexp.MustCompile(`(^|[^\w./@"-])` + here + `([.,])`)
	heading = regexp.MustCompile(`(?m)^` + here + `$`)
)

// lists renames the root package in the two lists that have it without quotes: what the modules
// export, and what they depend on.
func (r release) lists(name string, text []byte) []byte {
	switch {
	case path.Dir(name) == "api":
		return ofAPI.ReplaceAll(text, []byte("${1}"+r.Module+"${2}"))
	case name == "docs/dependencies.txt":
		return heading.ReplaceAll(text, []byte(r.Module))
	}
	return text
}

// fileName is what a file is called in the published tree: those in api/ are called as their modules.
func (r release) fileName(name string) string {
	module, found := strings.CutPrefix(name, "api/"+here)
	if !found {
		return name
	}
	return "api/" + strings.ReplaceAll(r.Module, "/", ".") + module
}

// public is the published path of a module of this tree, and whether it is one.
func (r release) public(name string) (string, bool) {
	if name == here {
		return r.Module, true
	}
	below, ours := strings.CutPrefix(name, here+"/")
	return r.Module + "/" + below, ours
}

// goMod is the go.mod of a module that is published.
func (r release) goMod(name string, body []byte) ([]byte, error) {
	f, err := modfile.Parse(name, body, nil)
	if err != nil {
		return nil, err
	}
	if to, ours := r.public(f.Module.Mod.Path); ours {
		if err := f.AddModuleStmt(to); err != nil {
			return nil, err
		}
	}
	for _, old := range slices.Clone(f.Replace) {
		if _, ours := r.public(old.Old.Path); !ours {
			return nil, fmt.Errorf("%s replaces %s, which a published module cannot", name, old.Old.Path)
		}
		if err := f.DropReplace(old.Old.Path, old.Old.Version); err != nil {
			return nil, err
		}
	}
	var requires []*modfile.Require
	for _, q := range f.Require {
		if to, ours := r.public(q.Mod.Path); ours {
			q = &modfile.Require{Mod: module.Version{Path: to, Version: r.Version}, Indirect: q.Indirect}
		}
		requires = append(requires, q)
	}
	f.SetRequireSeparateIndirect(requires)
	f.Cleanup()
	f.SortBlocks()
	return f.Format()
}
