package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/mod/modfile"
)

// here is the path of the root module in this tree.
const here = "leasehold"

// write writes the tree to out, and returns the folders of its modules.
func (r release) write(from, out string) (modules []string, err error) {
	if _, err := os.Lstat(out); err == nil {
		return nil, fmt.Errorf("%s exists: give a folder that does not", out)
	}
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = from
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files: %w", err)
	}
	files := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	rename := r.renaming(files)
	for _, name := range files {
		if name == "go.work" || name == "go.work.sum" {
			continue
		}
		src, dst := filepath.Join(from, name), filepath.Join(out, name)
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
		case strings.HasPrefix(path.Base(name), "README") && path.Dir(name) == ".":
			body, err = r.readme(name, rename(body))
		case utf8.Valid(body) && !bytes.ContainsRune(body, 0):
			body = rename(body)
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
	for _, q := range slices.Clone(f.Require) {
		to, ours := r.public(q.Mod.Path)
		if !ours {
			continue
		}
		indirect := q.Indirect
		if err := f.DropRequire(q.Mod.Path); err != nil {
			return nil, err
		}
		f.AddNewRequire(to, r.Version, indirect)
	}
	f.Cleanup()
	f.SortBlocks()
	return f.Format()
}

// readme is a README for those who have no clone.
func (r release) readme(name string, body []byte) ([]byte, error) {
	text := string(body)
	for _, change := range []struct{ old, new string }{
		{"go run ./cmd/leasehold run hello", "go run " + r.Module + "/cmd/leasehold@" + r.Version + " run hello"},
		{"go work init . ../leasehold ../leasehold/engine/redis", "go get " + r.Module + "@" + r.Version + " " + r.Module + "/engine/redis@" + r.Version},
		{inClone[name], r.withGet(name)},
	} {
		if strings.Count(text, change.old) != 1 || change.old == "" {
			return nil, fmt.Errorf("%s does not have this once, so lab/publish cannot change it: %q", name, change.old)
		}
		text = strings.Replace(text, change.old, change.new, 1)
	}
	return []byte(text), nil
}

// inClone is what the READMEs say to those who have a clone.
var inClone = map[string]string{
	"README.md": "Until leasehold has a public path, clone it beside your module and tie both together with a\n" +
		"workspace. Name the engine that you use, or `../leasehold/engines` for all of them:",
	"README.zh-CN.md": "在 leasehold 有公开路径之前，把它 clone 到你的模块旁边，用一个 workspace 连起来。写上你用的那个引擎；要全部引擎\n" +
		"就写 `../leasehold/engines`：",
}

func (r release) withGet(name string) string {
	if name == "README.zh-CN.md" {
		return "写上所用的引擎，或者用 `" + r.Module + "/engines` 得到全部引擎："
	}
	return "Name the engine that you use, or `" + r.Module + "/engines` for all of them:"
}
