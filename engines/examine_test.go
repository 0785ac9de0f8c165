package engines

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// TestEveryFindingIsOnThePage, and the page has no other: headings are bold there.
func TestEveryFindingIsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^- \*\*([^*]+)\*\*`).FindAllStringSubmatch(string(page), -1) {
		explained[m[1]] = true
	}
	reported := headings(t)
	if len(reported) < 60 {
		t.Errorf("only %d headings are found in the source", len(reported))
	}
	for heading, where := range reported {
		if !explained[heading] {
			t.Errorf("%s: docs/doctor.md does not explain %q", where, heading)
		}
	}
	for heading := range explained {
		if reported[heading] == "" {
			t.Errorf("docs/doctor.md explains %q, which nothing reports", heading)
		}
	}
}

// headings finds the What of every engine.Finding in the source, and where it is. Each must
// be a plain text: what it is about follows by findings.List.
func headings(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	set := token.NewFileSet()
	err := filepath.WalkDir("../engine", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			value, ok := n.(*ast.CompositeLit)
			if !ok || !isFinding(value.Type) {
				return true
			}
			for _, element := range value.Elts {
				pair, ok := element.(*ast.KeyValueExpr)
				if !ok || pair.Key.(*ast.Ident).Name != "What" {
					continue
				}
				where := set.Position(pair.Pos()).String()
				text, ok := pair.Value.(*ast.BasicLit)
				if !ok {
					t.Errorf("%s: the heading is not a plain text", where)
					continue
				}
				heading, err := strconv.Unquote(text.Value)
				if err != nil || strings.ContainsAny(heading, ":%*") {
					t.Errorf("%s: %s is no heading", where, text.Value)
				}
				all[heading] = where
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func isFinding(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "engine" && s.Sel.Name == "Finding"
}

// Something listens and never speaks: every examination ends with its context.
func TestNobodySpeaksToTheExamination(t *testing.T) {
	for _, s := range Schemes() {
		for _, name := range s.Names {
			if slices.Contains([]string{"dir", "mem", "http", "https"}, name) {
				continue // nothing listens, or no store stands behind it
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := Examine(ctx, at(name, func(network string) string { return servers.Impostor(t, network, nil) }),
					engine.ExamineOptions{}, func(f engine.Finding) { t.Errorf("%+v", f) })
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
	}
}

// TestExamineURLs: what is no URL of a store is refused as by Open, and no error shows a
// password.
func TestExamineURLs(t *testing.T) {
	for _, url := range []string{"mem:", "nothing", "ftp://h", "redis://u:hunter2@h:99999", "postgres://u:hunter2@h?prefix=%zz", "mysql://u:hunter2@"} {
		err := Examine(t.Context(), url, engine.ExamineOptions{}, func(engine.Finding) {})
		if !errors.Is(err, ErrURL) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestExamineByScheme(t *testing.T) {
	r := servers.Redis(t, nil)
	var all []engine.Finding
	err := Examine(t.Context(), "redis://"+r.Addr, engine.ExamineOptions{}, func(f engine.Finding) { all = append(all, f) })
	if err != nil || len(all) != 1 || !strings.HasPrefix(all[0].What, "a restart forgets locks: "+r.Addr) {
		t.Errorf("%+v, %v", all, err)
	}
}
