package main

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// plainWords are what exported types are also called: Go's own, and everybody's.
var plainWords = strings.Fields("options error kind check checker state owner none id mode memory row conflict stats")

// Every word of the name of a type that users see is in the glossary of docs/design.md,
// or plain: so there is one word for one thing.
func TestTheGlossaryHasEveryTypesWords(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "design.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, glossary, found := strings.Cut(string(text), "\n## Words\n")
	if !found {
		t.Fatal("docs/design.md has no section Words")
	}
	glossary, _, _ = strings.Cut(glossary, "\n## ")
	_, glossary, _ = strings.Cut(strings.ToLower(glossary), "\n|---")
	known := func(word string) bool {
		for _, w := range []string{word, strings.TrimSuffix(word, "s"), word + "s"} {
			if slices.Contains(plainWords, w) || regexp.MustCompile(`\b`+w+`\b`).MatchString(glossary) {
				return true
			}
		}
		return false
	}
	names := 0
	for _, dir := range []string{".", "engine", "engine/queue", "engine/queuestore", "fence", "optimistic"} {
		for _, name := range exportedTypes(t, filepath.Join(root, dir)) {
			names++
			for _, word := range camelWords(name) {
				if !known(word) {
					t.Errorf("%s.%s: the glossary does not have %q", dir, name, word)
				}
			}
		}
	}
	if names < 25 {
		t.Errorf("%d types were found", names)
	}
	if known("evicted") || known("lend") {
		t.Error("the glossary has a word that was given up")
	}
}

func exportedTypes(t *testing.T, dir string) (names []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for _, s := range g.Specs {
					if spec, ok := s.(*ast.TypeSpec); ok && spec.Name.IsExported() {
						names = append(names, spec.Name.Name)
					}
				}
			}
		}
	}
	return names
}

var camel = regexp.MustCompile(`[A-Z]+(?:[a-z0-9]+)?`)

func camelWords(name string) (words []string) {
	for _, w := range camel.FindAllString(name, -1) {
		words = append(words, strings.ToLower(w))
	}
	return words
}

// Every package that users land on has examples that run.
func TestPackagesHaveExamplesThatRun(t *testing.T) {
	total := 0
	for dir, least := range map[string]int{".": 20, "fence": 3, "fence/fencehttp": 1, "optimistic": 3, "engine/filelock": 1, "engines": 2} {
		files, err := filepath.Glob(filepath.Join(root, dir, "example*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range doc.Examples(f) {
				if e.Output != "" {
					n++
				}
			}
		}
		if n < least {
			t.Errorf("%s has %d examples that run, want %d at least", dir, n, least)
		}
		total += n
	}
	if total < 25 {
		t.Errorf("%d examples run, want 25 at least", total)
	}
}

// headings are the levels of a page's headings, in order, without those in code.
func headings(t *testing.T, name string) (levels []int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	code := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if level := len(line) - len(strings.TrimLeft(line, "#")); !code && level > 0 {
			levels = append(levels, level)
		}
	}
	return levels
}

// A page in Chinese has the sections and the code of the one in English; only comments
// in code and texts that programs print differ.
func TestPagesInChineseHaveTheSectionsOfTheEnglishOnes(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "*.zh-CN.md"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(root, "docs", "*.zh-CN.md"))
	if err != nil {
		t.Fatal(err)
	}
	if files = append(files, more...); len(files) == 0 {
		t.Fatal("there is no page in Chinese")
	}
	said := regexp.MustCompile(`(?m)(//|#).*$|"[^"]*"`)
	for _, file := range files {
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		english := strings.Replace(name, ".zh-CN", "", 1)
		if got, want := headings(t, name), headings(t, english); !slices.Equal(got, want) {
			t.Errorf("%s: got headings of levels %v, want %v as in %s", name, got, want, english)
		}
		got, want := page(t, name), page(t, english)
		if len(got) != len(want) {
			t.Errorf("%s: got %d blocks of code, want %d as in %s", name, len(got), len(want), english)
			continue
		}
		for i := range got {
			if got[i].lang == "text" {
				continue
			}
			if a, b := said.ReplaceAllString(got[i].text, ""), said.ReplaceAllString(want[i].text, ""); got[i].lang != want[i].lang || a != b {
				t.Errorf("%s:%d: the code differs from %s:%d:\n%s", name, got[i].line, english, want[i].line, got[i].text)
			}
		}
	}
}
