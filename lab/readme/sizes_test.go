package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// asksForTheSize is whether a file makes its tests smaller in a short run, or leaves them out.
func asksForTheSize(t *testing.T, name string) (asks bool) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			x, _ := s.X.(*ast.Ident)
			asks = asks || x != nil && slices.Contains([]string{"testing.Short", "testutil.Sized", "servers.LeftOut"}, x.Name+"."+s.Sel.Name)
		}
		return !asks
	})
	return asks
}

// What make test leaves out is said where a reader looks, and what it no longer leaves out is not.
func TestEveryFileWithTwoSizesIsOnThePage(t *testing.T) {
	const own = "engine/internal/testutil/testutil.go" // has Sized
	want := map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != root:
			return fs.SkipDir
		case filepath.Ext(name) != ".go":
			return nil
		}
		at, err := filepath.Rel(root, name)
		if at = filepath.ToSlash(at); err == nil && at != own && asksForTheSize(t, name) {
			want[at] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "test-sizes.md"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, m := range link.FindAllStringSubmatch(string(page), -1) {
		if strings.HasSuffix(m[1], ".go") {
			got[path.Join("docs", m[1])] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !got[name] {
			t.Errorf("%s has tests of two sizes, and no row in docs/test-sizes.md", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if !want[name] {
			t.Errorf("docs/test-sizes.md has a row for %s, which has one size", name)
		}
	}
}
