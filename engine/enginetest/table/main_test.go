package main

import (
	"os"
	"strings"
	"testing"
)

// The page is what the committed rows say. Each engine's conformance test
// compares its row with what it measures, so the page is what was measured.
func TestThePageIsNotWhatTheRowsSay(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := render(string(page), "../../../docs/guarantees")
	if err != nil {
		t.Fatal(err)
	}
	if want != string(page) {
		t.Error("docs/guarantees.md differs from the committed rows: `go run ./engine/enginetest/table` at the root of the repository, and commit it")
	}
}

func TestOtherTextOfThePageIsLost(t *testing.T) {
	page := "above\n" + begin + "old\n" + end + "below\n"
	got, err := render(page, "../../../docs/guarantees")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, "above\n"+begin) || !strings.HasSuffix(got, end+"below\n") || strings.Contains(got, "old\n") {
		t.Errorf("rendered:\n%s", got)
	}
	if _, err := render("no markers", "../../../docs/guarantees"); err == nil {
		t.Error("a page without markers is overwritten")
	}
}
