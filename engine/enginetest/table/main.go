// Command table renders the committed rows of the conformance suite into
// docs/guarantees.md, between its two markers. Run it at the root of the
// repository:
//
//	go run ./engine/enginetest/table
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"leasehold/engine/enginetest"
)

func main() {
	doc := flag.String("doc", "docs/guarantees.md", "the page")
	rows := flag.String("rows", "docs/guarantees", "the folder of committed rows")
	flag.Parse()
	if err := update(*doc, *rows); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

const (
	begin = "<!-- measured: written by go run ./engine/enginetest/table -->\n"
	end   = "<!-- end of measured -->\n"
)

func update(doc, rows string) error {
	page, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	want, err := render(string(page), rows)
	if err != nil || want == string(page) {
		return err
	}
	return os.WriteFile(doc, []byte(want), 0o644)
}

// render is the page as it should be.
func render(page, dir string) (string, error) {
	before, rest, ok := strings.Cut(page, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("the page lacks the marker %q or %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return "", err
	}
	if len(files) == 0 {
		return "", errors.New("there are no rows in " + dir)
	}
	var rows []enginetest.Row
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		var r enginetest.Row
		if err := json.Unmarshal(b, &r); err != nil {
			return "", fmt.Errorf("%s: %w", f, err)
		}
		rows = append(rows, r)
	}
	return before + begin + "\n" + enginetest.Render(rows) + "\n" + end + after, nil
}
