package main

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"testing"

	"leasehold/lab/internal/svg"
)

// printed is the output of a demo: its first row has that text.
func printed(text string) string {
	return `
By hand: a lock
           A        B
   0.05 s  waits    -        ` + text + `
   0.06 s  HOLDS    waits    A has the lock
   2.07 s  HOLDS    HOLDS    B has the lock   <-- 2 hold
   2.08 s  -        HOLDS    A unlocks

The same with leasehold
           A        B
   0.05 s  HOLDS    stopped  A has the lock

By hand two held; with leasehold nobody did; really.
Read on: docs/from-your-lock.md#a-lock
`
}

// drawing is what a picture has: its labels, and the colours of its boxes.
type drawing struct {
	Text []string `xml:"text"`
	Rect []struct {
		Fill   string  `xml:"fill,attr"`
		X      float64 `xml:"x,attr"`
		Y      float64 `xml:"y,attr"`
		Height float64 `xml:"height,attr"`
	} `xml:"rect"`
}

func drawingOf(t *testing.T, theme svg.Theme, text string) (d drawing) {
	t.Helper()
	r, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	c := timeline("leasehold demo a", r)(theme)
	if misfits := c.Misfits(); len(misfits) > 0 {
		t.Errorf("%q", misfits)
	}
	if err := xml.Unmarshal(c.SVG(), &d); err != nil {
		t.Fatalf("%v:\n%s", err, c.SVG())
	}
	return d
}

func TestATimelineIsDrawnAsItWasRecorded(t *testing.T) {
	light := svg.Themes()[0]
	d := drawingOf(t, light, printed("A asks"))
	labels := []string{
		"$ leasehold demo a", "By hand: a lock", "A", "B",
		"0.05 s", "A asks", "0.06 s", "A has the lock", "2.07 s", "2 hold", "B has the lock", "2.08 s", "A unlocks",
		"waits", "HOLDS", "HOLDS", "waits", "HOLDS", "HOLDS", "Two held.",
		"The same with leasehold", "A", "B", "0.05 s", "A has the lock", "HOLDS", "stopped", "Nobody did; really.",
	}
	if !slices.Equal(d.Text, labels) {
		t.Errorf("got the labels\n%q, want\n%q", d.Text, labels)
	}
	us, both := fill(light.Us), fill(light.Others[1])
	var colours []string
	for _, box := range d.Rect {
		colours = append(colours, box.Fill)
	}
	// A waits, holds, holds beside B; B waits, holds beside A, holds; and with leasehold.
	if want := []string{"none", us, both, "none", both, us, us, "none"}; !slices.Equal(colours, want) {
		t.Fatalf("got the boxes %q, want %q", colours, want)
	}
	// Both hold at the same time in the picture, too, and each in its own lane.
	a, b := d.Rect[2], d.Rect[4]
	if a.Y != b.Y || a.Height != b.Height || a.X >= b.X {
		t.Errorf("A holds at %+v and B at %+v", a, b)
	}
}

func fill(c interface{ RGBA() (r, g, b, a uint32) }) string {
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

// What a server answers may be in a row, and somebody else may have written that.
func TestHostileTextIsAText(t *testing.T) {
	for name, text := range map[string]string{
		"markup":    `<script>alert(1)</script> & "quotes" ]]>`,
		"a control": "red \x1b[31m, a bell \a, a byte \xff",
		"very long": strings.Repeat("W", 5000),
		"spaces":    strings.Repeat("a ", 500),
		"a mark":    "<-- 2 hold",
	} {
		d := drawingOf(t, svg.Themes()[1], printed(text))
		if len(d.Rect) != 8 {
			t.Errorf("%s: %d boxes", name, len(d.Rect))
		}
		if all := strings.Join(d.Text, ""); name == "markup" && !strings.Contains(all, text) {
			t.Errorf("%s: the labels are %q", name, d.Text)
		}
	}
}

func TestWhatIsNoRecordingIsRefused(t *testing.T) {
	good := printed("A asks")
	for name, text := range map[string]string{
		"nothing":             "",
		"one timeline":        good[:strings.Index(good, "The same")],
		"no sentence":         good[:strings.Index(good, "By hand two")],
		"no lanes":            strings.ReplaceAll(good, "           A        B\n", ""),
		"one lane":            strings.ReplaceAll(good, "           A        B\n", "           A\n"),
		"a short row":         strings.ReplaceAll(good, "  A has the lock", ""),
		"a lane that is bare": strings.ReplaceAll(good, "HOLDS    waits", "HOLDS         "),
	} {
		if r, err := parse(text); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A recording that is committed names no machine.
func TestARecordingNamesNoMachine(t *testing.T) {
	got := clean("\nBy hand: x  \n   1.00 s  -  held by \"box-7 pid 12 (A)\"\n", "box-7")
	if want := "By hand: x\n   1.00 s  -  held by \"host pid 12 (A)\"\n"; got != want {
		t.Errorf("%q", got)
	}
}
