// Command api compares what each module exports with the folder api/, so that each change of
// what users can write is a visible line of a commit.
//
//	go run ./lab/api           # fails if they differ
//	go run ./lab/api -update   # writes the files
//
// A file is of a module that users import; packages that are internal or programs are none of
// their API. A line is a function, a method, a type, a field, a variable, or a constant with its
// value, as the types of Linux have it.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	update := flag.Bool("update", false, "write the files instead of comparing them")
	flag.Parse()
	if err := run(".", "api", *update); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

// run reads the modules of the workspace of dir.
func run(dir, folder string, update bool) error {
	now, err := exported(dir, "work")
	if err != nil {
		return err
	}
	if update {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for name, text := range now {
			if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
				return err
			}
		}
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var failed []error
	for _, f := range files {
		if _, ok := now[f.Name()]; !ok {
			failed = append(failed, fmt.Errorf("%s is of no module: delete it", f.Name()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, line := range difference(was, now[name]) {
			failed = append(failed, fmt.Errorf("%s: %s", name, line))
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%w\nwhat users can write has changed: if that is meant, run `go run ./lab/api -update` and say it in CHANGELOG.md", errors.Join(failed...))
	}
	return nil
}

// difference is the lines that only one of two sorted texts has: with - those of the first.
func difference(was, now []byte) (lines []string) {
	before, after := lineSet(was), lineSet(now)
	for line := range before {
		if !after[line] {
			lines = append(lines, "- "+line)
		}
	}
	for line := range after {
		if !before[line] {
			lines = append(lines, "+ "+line)
		}
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	return lines
}

func lineSet(text []byte) map[string]bool {
	set := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		set[strings.TrimSuffix(line, "\n")] = true
	}
	return set
}

// exported is the API of each module that users import, by the name of its file.
func exported(dir, pattern string) (map[string][]byte, error) {
	all, err := packages.Load(&packages.Config{Dir: dir, Mode: packages.NeedName | packages.NeedTypes | packages.NeedModule | packages.NeedImports, Env: append(os.Environ(), "GOOS=linux")}, pattern)
	if err != nil {
		return nil, err
	}
	lines := map[string][]string{}
	for _, p := range all {
		for _, e := range p.Errors {
			return nil, e
		}
		if p.Module == nil || p.Name == "main" || hidden(p.PkgPath) {
			continue
		}
		file := strings.ReplaceAll(p.Module.Path, "/", ".") + ".txt"
		lines[file] = append(lines[file], describe(p.Types)...)
	}
	texts := map[string][]byte{}
	for file, api := range lines {
		slices.Sort(api)
		var b bytes.Buffer
		for _, line := range slices.Compact(api) {
			fmt.Fprintln(&b, line)
		}
		texts[file] = b.Bytes()
	}
	return texts, nil
}

// hidden is a package that no user imports: the compiler forbids it, or it is only run here.
func hidden(path string) bool {
	parts := strings.Split(path, "/")
	return slices.Contains(parts, "internal") || slices.Contains(parts, "lab") || slices.Contains(parts, "examples")
}

// describe is what a package exports, a line each.
func describe(p *types.Package) (lines []string) {
	say := func(format string, args ...any) {
		lines = append(lines, "pkg "+p.Path()+", "+fmt.Sprintf(format, args...))
	}
	qualified := func(other *types.Package) string {
		if other == p {
			return ""
		}
		return other.Path()
	}
	write := func(t types.Type) string { return types.TypeString(t, qualified) }
	signature := func(f *types.Func) string { return strings.TrimPrefix(write(f.Type()), "func") }
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		switch o := o.(type) {
		case *types.Const:
			say("const %s %s = %s", name, write(o.Type()), o.Val().ExactString())
		case *types.Var:
			say("var %s %s", name, write(o.Type()))
		case *types.Func:
			say("func %s%s", name, signature(o))
		case *types.TypeName:
			describeType(o, say, write, signature)
		}
	}
	return lines
}

func describeType(o *types.TypeName, say func(string, ...any), write func(types.Type) string, signature func(*types.Func) string) {
	named, ok := o.Type().(*types.Named)
	if o.IsAlias() || !ok {
		say("type %s = %s", o.Name(), write(types.Unalias(o.Type())))
		return
	}
	name := o.Name()
	if p := named.TypeParams(); p.Len() > 0 {
		var params []string
		for i := range p.Len() {
			params = append(params, p.At(i).Obj().Name()+" "+write(p.At(i).Constraint()))
		}
		name += "[" + strings.Join(params, ", ") + "]"
	}
	switch under := named.Underlying().(type) {
	case *types.Struct:
		say("type %s struct", name)
		for i := range under.NumFields() {
			switch f := under.Field(i); {
			case f.Exported() && f.Embedded():
				say("type %s struct, embedded %s", name, write(f.Type()))
			case f.Exported():
				say("type %s struct, %s %s", name, f.Name(), write(f.Type()))
			}
		}
	case *types.Interface:
		var methods []string
		closed := ""
		for i := range under.NumMethods() {
			if m := under.Method(i); m.Exported() {
				methods = append(methods, m.Name())
				say("type %s interface, %s%s", name, m.Name(), signature(m))
			} else {
				closed = ", with methods that are not exported"
			}
		}
		say("type %s interface { %s }%s", name, strings.Join(methods, ", "), closed)
	default:
		say("type %s %s", name, write(under))
	}
	if _, is := named.Underlying().(*types.Interface); is {
		return
	}
	all := types.NewMethodSet(types.NewPointer(named))
	values := types.NewMethodSet(named)
	for i := range all.Len() {
		m := all.At(i).Obj().(*types.Func)
		if !m.Exported() {
			continue
		}
		receiver := "*" + o.Name()
		if values.Lookup(m.Pkg(), m.Name()) != nil {
			receiver = o.Name()
		}
		say("method (%s) %s%s", receiver, m.Name(), signature(m))
	}
}
