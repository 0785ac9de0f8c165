package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"leasehold/lab/internal/svg"
)

const root = "../.."

func TestTheCommittedPicturesAreThese(t *testing.T) {
	drawn := t.TempDir()
	if err := write(drawn); err != nil {
		t.Fatal(err)
	}
	names := func(folder string) map[string]bool {
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]bool{}
		for _, f := range files {
			all[f.Name()] = true
		}
		return all
	}
	committed := filepath.Join(root, folder)
	for name := range names(committed) {
		if !names(drawn)[name] {
			t.Errorf("%s/%s is none of the pictures: delete it", folder, name)
		}
	}
	for name := range names(drawn) {
		want, err := os.ReadFile(filepath.Join(drawn, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(committed, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s/%s is not what is drawn (%v): make pictures, look at it, and commit it", folder, name, err)
		}
	}
}

func TestLabelsFitInTheWidestFont(t *testing.T) {
	for _, p := range pictures() {
		for _, theme := range svg.Themes() {
			if misfits := p.draw(theme).Misfits(); len(misfits) > 0 {
				t.Errorf("%s, %s: %q", p.name, theme.Name, misfits)
			}
		}
	}
}

// A picture that no page shows is drawn for nobody.
func TestEveryPictureIsShown(t *testing.T) {
	var text []byte
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	for _, p := range pictures() {
		for _, theme := range svg.Themes() {
			if name := "pictures/" + p.name + "-" + theme.Name + ".svg"; !bytes.Contains(text, []byte(name)) {
				t.Errorf("no page shows %s", name)
			}
		}
	}
}
