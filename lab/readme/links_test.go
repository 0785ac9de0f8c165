package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// schemes are the locks of the articles that people copy, by words that the text of a link
// to their section has.
var schemes = []string{
	"unique row", "version column", "SETNX", "SETNX, then EXPIRE", "DEL", "GET, then DEL", "compare-and-delete", "JSON value", "GETSET",
	"MULTI/EXEC", "failover", "Redlock", "RLock", "fair lock", "read-write lock", "MultiLock", "RedLock", "one node", "parent", "predecessor",
	"Curator", "A then B", "paused holder", "call by call", "Kubernetes", "Consul", "DynamoDB", "migrating",
}

var link = regexp.MustCompile(`\[([^\]]+)\]\(([^)#\s]*)(#[^)\s]+)?\)`)

// anchors are those of a page's headings, as GitHub makes them.
func anchors(text string) (found []string) {
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		title, isHeading := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if fenced || !isHeading || !strings.HasPrefix(line, "#") {
			continue
		}
		title = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
		found = append(found, "#"+strings.ReplaceAll(title, " ", "-"))
	}
	return found
}

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Somebody who knows only the article finds its lock: README has a link to the page, and
// the page one to the section, which is there.
func TestEverySchemeIsTwoClicksFromTheREADME(t *testing.T) {
	const page = "docs/from-your-lock.md"
	if !strings.Contains(text(t, "README.md"), "("+page+")") {
		t.Fatalf("README.md has no link to %s", page)
	}
	found := map[string]string{}
	for _, l := range link.FindAllStringSubmatch(text(t, page), -1) {
		if l[3] != "" && found[l[1]] == "" {
			found[l[1]] = l[2] + l[3]
		}
	}
	for _, scheme := range schemes {
		if found[scheme] == "" {
			t.Errorf("%s has no link %q to a section", page, scheme)
		}
	}
}

// Each link of a page to a file or section leads to one.
func TestLinksBetweenPagesLead(t *testing.T) {
	for _, page := range []string{"docs/from-your-lock.md", "docs/migrating.md"} {
		for _, l := range link.FindAllStringSubmatch(text(t, page), -1) {
			to, anchor := l[2], l[3]
			switch {
			case strings.Contains(to, "://"):
				continue
			case to == "":
				to = page
			default:
				to = path.Join(path.Dir(page), to)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: %s leads nowhere", page, l[0])
			} else if anchor != "" && !slices.Contains(anchors(text(t, to)), anchor) {
				t.Errorf("%s: %s: %s has no such section", page, l[0], to)
			}
		}
	}
	if got, want := anchors("# A `b`: c/d's\n```\n# no\n```\n"), "#a-b-cds"; len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}
