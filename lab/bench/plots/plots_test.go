package plots

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot"

	"leasehold/lab/internal/svg"
)

// Both grounds are drawn, as whole SVG, and the values are in it as text: a reader
// without the picture's fonts or colours still has them.
func TestBarsAreDrawnForBothGrounds(t *testing.T) {
	base := filepath.Join(t.TempDir(), "plot")
	if err := Bars(base, "a title", "milliseconds", []Bar{{Label: "ours", Value: 0.4, Text: "0.4 ms", Us: true}, {}, {Label: "theirs", Value: 120, Text: "120 ms"}}); err != nil {
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

// A label that is longer than all others takes room from the bars, and from nothing else.
func TestLabelsFitInTheWidestFont(t *testing.T) {
	bars := []Bar{
		{Label: "Redis: BLPOP", Value: 0.108, Text: "108 µs"}, {},
		{Label: "Redis, five masters: leasehold redlock", Value: 0.852, Text: "852 µs", Us: true},
		{Label: "Redis, five masters: redsync x5", Value: 100, Text: "100 ms"},
	}
	for _, theme := range svg.Themes() {
		if misfits := drawBars(theme, "Hand-over between 8 processes, median", "milliseconds, logarithmic", bars).Misfits(); len(misfits) > 0 {
			t.Errorf("%s: %q", theme.Name, misfits)
		}
	}
}

// Titles stood at the upper edge of a plot, where a font taller than gonum's is cut off,
// and few readers have gonum's font.
func TestPlotsHaveAMarginAndFontsThatReadersHave(t *testing.T) {
	base := filepath.Join(t.TempDir(), "plot")
	draw := func(svg.Theme) *plot.Plot {
		p := plot.New()
		p.Title.Text = "a title"
		return p
	}
	if err := Write(base, 560, 300, draw); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(base + "-light.svg")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`width="576pt" height="316pt" viewBox="-8 -8 576 316"`, "Arial, Helvetica, sans-serif"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in it", want)
		}
	}
}
