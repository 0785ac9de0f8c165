package handwritten_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const page = "../../../../docs/from-your-lock.md"

// The page shows the code that the tests and the demos run.
func TestThePageShowsThisCode(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(b)
	}
	blocks := regexp.MustCompile("(?s)```go theirs\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 10 {
		t.Fatalf("the page has %d blocks of this code", len(blocks))
	}
	for _, block := range blocks {
		for function := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n\nfunc") {
			if !strings.Contains(code.String(), function) {
				t.Errorf("this is not the code:\n%s", function)
			}
		}
	}
	for _, name := range regexp.MustCompile("`(Test[A-Z]\\w+)`").FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(code.String(), "func "+name[1]+"(") {
			t.Errorf("the page names the test %s, which is not there", name[1])
		}
	}
}
