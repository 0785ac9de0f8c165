package main

import (
	"os"
	"path/filepath"
	"regexp"
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

// section is a link to a section of a page.
var section = regexp.MustCompile(`\[([^\]]+)\]\(([^)#\s]*)(#[^)\s]+)\)`)

// Somebody who knows only the article finds its lock: README has a link to the page, and
// the page one to the section, which is there.
func TestEverySchemeIsTwoClicksFromTheREADME(t *testing.T) {
	const page = "docs/from-your-lock.md"
	if !strings.Contains(content(t, "README.md"), "("+page+")") {
		t.Fatalf("README.md has no link to %s", page)
	}
	found := map[string]string{}
	for _, l := range section.FindAllStringSubmatch(content(t, page), -1) {
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

func content(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
