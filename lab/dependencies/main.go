// Dependencies compares what every module of the workspace, and those that make a release
// outside it, depend on with docs/dependencies.txt, so that each new dependency is a visible
// line with the reason for it.
//
//	go run ./lab/dependencies           # fails if they differ
//	go run ./lab/dependencies -update   # writes the list; reasons are yours to fill in
//
// It looks at each module as its users get it, without go.work. Versions are
// not listed: go.mod has them.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const header = `# Every module that is needed to build or test leasehold, by the module that
# needs it. "direct": imported by what users build, or by a program of the lab; "tool": a
# program that is run; "test": imported by tests alone; "through": needed by one of those.
# Each but the last has its reason here. Checked by 'make dependencies' without go.work.
`

// noReason marks what nobody has explained yet; the check refuses it.
const noReason = "?"

func main() {
	update := flag.Bool("update", false, "write the list instead of comparing it")
	flag.Parse()
	if err := run(filepath.Join("docs", "dependencies.txt"), *update); err != nil {
		fmt.Fprintln(os.Stderr, "dependencies:", err)
		os.Exit(1)
	}
}

func run(path string, update bool) error {
	old, err := os.ReadFile(path)
	if err != nil && !(update && errors.Is(err, os.ErrNotExist)) {
		return err
	}
	modules, err := workspace()
	if err != nil {
		return err
	}
	tied, err := tiedByWork()
	if err != nil {
		return err
	}
	if err := lockstep(modules, tied); err != nil {
		return err
	}
	reasons := reasonsOf(string(old))
	var b strings.Builder
	b.WriteString(header)
	var unexplained []string
	for _, m := range modules {
		needs, err := m.needs(modules)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n%s\n", m.Path)
		if len(needs) == 0 {
			b.WriteString("    nothing\n")
		}
		for _, n := range needs {
			reason := ""
			if n.kind != through {
				if reason = reasons[m.Path+" "+n.path]; reason == "" {
					reason = noReason
				}
				if reason == noReason {
					unexplained = append(unexplained, m.Path+": "+n.path)
				}
			}
			b.WriteString(strings.TrimRight(fmt.Sprintf("    %-8s %-40s %s", n.kind, n.path, reason), " ") + "\n")
		}
	}
	if update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			return err
		}
	} else if diff := difference(string(old), b.String()); diff != "" {
		return fmt.Errorf("%s and go.mod differ:\n%sif that is meant: go run ./lab/dependencies -update, then write the reason", path, diff)
	}
	if len(unexplained) > 0 {
		return fmt.Errorf("%s has no reason for:\n%s", path, strings.Join(unexplained, "\n"))
	}
	return nil
}

type module struct{ Path, Dir string }

// outside are the modules that go.work has not: a release is built by the one, and checked by
// the other. The etcd of lab/tools/etcd is a server that tests run, as those of Debian are.
var outside = []string{"dist", "tools"}

// workspace lists the modules of go.work, and those outside.
func workspace() ([]module, error) {
	out, err := command(".", "go", "list", "-m", "-f", "{{.Path}} {{.Dir}}")
	if err != nil {
		return nil, err
	}
	var modules []module
	for line := range strings.Lines(out) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		modules = append(modules, module{path, dir})
	}
	for _, name := range outside {
		dir := filepath.Join("lab", name)
		path, err := command(".", filepath.Join(".ci", "alone"), dir, "go", "list", "-m")
		if err != nil {
			return nil, err
		}
		modules = append(modules, module{strings.TrimSpace(path), dir})
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return modules, nil
}

// tiedByWork is the versions of modules for which go.work names a folder, as .ci/work writes them
// in a published tree: there no go.mod has replace lines.
func tiedByWork() (map[string]bool, error) {
	text, err := command(".", "go", "work", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var work struct {
		Replace []struct {
			Old struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal([]byte(text), &work); err != nil {
		return nil, err
	}
	tied := map[string]bool{}
	for _, r := range work.Replace {
		tied[r.Old.Path+"@"+r.Old.Version] = true
	}
	return tied, nil
}

// lockstep fails unless all modules of this house need each other in one version and are
// built from this tree: they use each other's internal packages, so mixed versions need
// not compile.
func lockstep(modules []module, tied map[string]bool) error {
	versions := map[string][]string{} // by version, who needs what in it
	for _, m := range modules {
		mod, err := m.file()
		if err != nil {
			return err
		}
		replaced := map[string]bool{}
		for _, r := range mod.Replace {
			replaced[r.Old.Path] = strings.HasPrefix(r.New.Path, ".")
		}
		for _, r := range mod.Require {
			if !ours(modules, r.Path) {
				continue
			}
			versions[r.Version] = append(versions[r.Version], m.Path+" needs "+r.Path)
			if !replaced[r.Path] && !tied[r.Path+"@"+r.Version] {
				return fmt.Errorf("%s needs %s and not from this tree: add a replace with its folder to the go.mod", m.Path, r.Path)
			}
		}
	}
	if len(versions) > 1 {
		var b strings.Builder
		for _, v := range slices.Sorted(maps.Keys(versions)) {
			fmt.Fprintf(&b, "\n%s: %s", v, strings.Join(versions[v], ", "))
		}
		return fmt.Errorf("modules of one release need each other in several versions: release them in lockstep:%s", &b)
	}
	return nil
}

// ours reports whether a module is one of this house, whatever path that is published under.
func ours(modules []module, path string) bool {
	return slices.ContainsFunc(modules, func(m module) bool { return m.Path == path })
}

// modFile is what a go.mod says.
type modFile struct {
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct{ Old, New struct{ Path string } }
	Tool    []struct{ Path string }
}

func (m module) file() (f modFile, err error) {
	text, err := command(m.Dir, "go", "mod", "edit", "-json")
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal([]byte(text), &f)
}

// isTool reports whether a program of that module is run, as a line of the go.mod says.
func (f modFile) isTool(path string) bool {
	for _, t := range f.Tool {
		if strings.HasPrefix(t.Path+"/", path+"/") {
			return true
		}
	}
	return false
}

type need struct{ kind, path string }

const (
	direct  = "direct"
	tool    = "tool"
	test    = "test"
	through = "through"
)

// needs lists what one module requires, the most deliberate first. The
// requirements of a go.mod are complete: whatever is needed to build or test
// the module's own packages is among them.
func (m module) needs(house []module) ([]need, error) {
	mod, err := m.file()
	if err != nil {
		return nil, err
	}
	packages := "./..."
	if len(mod.Tool) > 0 {
		packages = "tool" // there are no others
	}
	built, err := command(".", filepath.Join(".ci", "alone"), m.Dir, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", packages)
	if err != nil {
		return nil, err
	}
	linked := map[string]bool{}
	for path := range strings.Lines(built) {
		linked[strings.TrimSpace(path)] = true
	}
	var needs []need
	for _, r := range mod.Require {
		switch {
		case ours(house, r.Path):
		case mod.isTool(r.Path):
			needs = append(needs, need{tool, r.Path})
		case r.Indirect:
			needs = append(needs, need{through, r.Path})
		case linked[r.Path]:
			needs = append(needs, need{direct, r.Path})
		default:
			needs = append(needs, need{test, r.Path})
		}
	}
	order := []string{direct, tool, test, through}
	slices.SortFunc(needs, func(a, b need) int {
		if d := slices.Index(order, a.kind) - slices.Index(order, b.kind); d != 0 {
			return d
		}
		return strings.Compare(a.path, b.path)
	})
	return needs, nil
}

// reasonsOf reads the reasons of an earlier list, by "module dependency".
func reasonsOf(list string) map[string]string {
	reasons := map[string]string{}
	current := ""
	for line := range strings.Lines(list) {
		if line = strings.TrimRight(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		if line[0] != ' ' {
			current = line
			continue
		}
		if f := strings.Fields(line); len(f) > 2 {
			reasons[current+" "+f[1]] = strings.Join(f[2:], " ")
		}
	}
	return reasons
}

// difference lists the lines of only one of two lists, as - and +.
func difference(old, new string) string {
	var b strings.Builder
	mark := func(sign, from, other string) {
		have := map[string]bool{}
		for _, e := range sections(other) {
			have[e] = true
		}
		for _, e := range sections(from) {
			if !have[e] {
				fmt.Fprintf(&b, "%s %s\n", sign, e)
			}
		}
	}
	mark("-", old, new)
	mark("+", new, old)
	if b.Len() == 0 && old != new {
		return "only in the order or the spacing of lines\n"
	}
	return b.String()
}

// sections are the lines of a list, each with the module it stands under.
func sections(list string) (lines []string) {
	current := ""
	for line := range strings.Lines(list) {
		switch line = strings.TrimRight(line, "\n"); {
		case line == "" || line[0] == '#':
		case line[0] != ' ':
			current = line
			lines = append(lines, line)
		default:
			lines = append(lines, current+": "+strings.Join(strings.Fields(line), " "))
		}
	}
	return lines
}

// command runs a program in a folder, and returns what it printed.
func command(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s in %s: %w", name, strings.Join(args, " "), dir, err)
	}
	return string(out), nil
}
