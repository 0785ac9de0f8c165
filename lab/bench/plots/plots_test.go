package plots

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Both grounds are drawn, as whole SVG, and the values are in it as text: a reader
// without the picture's fonts or colours still has them.
func TestBarsAreDrawnForBothGrounds(t *testing.T) {
	base := filepath.Join(t.TempDir(), "plot")
	if err := Targets(base, "a title", "milliseconds", []Target{{Label: "ours", Value: 0.4, Text: "0.4 ms", Us: true}, {}, {Label: "theirs", Value: 120, Text: "120 ms"}}); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, ground := range []string{"light", "dark"} {
		b, err := os.ReadFile(base + "-" + ground + ".svg")
		if err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(strings.NewReader(string(b)))
		for err == nil {
			_, err = d.Token()
		}
		if err != io.EOF {
			t.Fatalf("%s: no XML: %v", ground, err)
		}
		for _, want := range []string{"a title", "ours", "0.4 ms", "theirs", "120 ms"} {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s: %q is not in it", ground, want)
			}
		}
		texts = append(texts, string(b))
	}
	if texts[0] == texts[1] {
		t.Error("both grounds have the same drawing")
	}
}
