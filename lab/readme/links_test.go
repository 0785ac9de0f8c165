package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link  = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	title = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence = regexp.MustCompile("(?ms)^```.*?^```")
	// place is where a page says that something is done.
	place = regexp.MustCompile("((?:`[A-Za-z]+`(?: and )?)+)\\s+in\\s+\\[[^]]*\\]\\(([^)]+\\.go)\\)")
)

// pages are what people read, with their texts without code.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = fence.ReplaceAllString(string(b), "")
		}
	}
	return all
}

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// Headings are rewritten and files are moved, and nobody reads every link again.
func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			path, to, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", name, m[1])
				continue
			}
			found := to == ""
			for _, h := range title.FindAllStringSubmatch(all[target], -1) {
				found = found || anchor(h[1]) == to
			}
			if !found {
				t.Errorf("%s: %s has no heading for #%s", name, path, to)
			}
		}
	}
}

// What a page says is done in a function of a file is done there.
func TestPlacesThatPagesNameAreThere(t *testing.T) {
	n := 0
	for name, text := range pages(t) {
		for _, m := range place.FindAllStringSubmatch(text, -1) {
			src, err := os.ReadFile(filepath.Join(filepath.Dir(name), m[2]))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, function := range regexp.MustCompile("[A-Za-z]+").FindAllString(m[1], -1) {
				if n++; function != "and" && !regexp.MustCompile(`(?m)^func (\([^)]*\) )?`+function+`\(`).Match(src) {
					t.Errorf("%s: there is no function %s in %s", name, function, m[2])
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d functions found: the five steps of docs/redlock.md name more", n)
	}
}
