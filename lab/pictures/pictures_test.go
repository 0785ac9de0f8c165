package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"leasehold/lab/internal/svg"
)

const root = "../.."

// drawn are all pictures.
func drawn(t *testing.T) []picture {
	t.Helper()
	all, err := pictures("recordings")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTheCommittedPicturesAreThese(t *testing.T) {
	now := t.TempDir()
	if err := write(now, "recordings"); err != nil {
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
	dashboard, err := os.ReadFile(filepath.Join(root, "docs", "dashboard.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range names(committed) {
		// make pictures-ui takes these, from a browser.
		if shown := strings.Contains(string(dashboard), "pictures/"+name); shown && strings.HasPrefix(name, "ui-") {
			continue
		}
		if !names(now)[name] {
			t.Errorf("%s/%s is none of the pictures: delete it", folder, name)
		}
	}
	for name := range names(now) {
		want, err := os.ReadFile(filepath.Join(now, name))
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
	for _, p := range drawn(t) {
		for _, theme := range svg.Themes() {
			if misfits := p.draw(theme).Misfits(); len(misfits) > 0 {
				t.Errorf("%s, %s: %q", p.name, theme.Name, misfits)
			}
		}
	}
}

// A page in another language shows the same pictures in the same places.
func TestPagesInChineseShowThePicturesOfTheEnglishOnes(t *testing.T) {
	shown := regexp.MustCompile(`(?m)^#|pictures/[a-z-]+\.svg`)
	const english, chinese = "docs/from-your-lock.md", "docs/from-your-lock.zh-CN.md"
	places := map[string][]string{}
	for _, page := range []string{english, chinese} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		places[page] = shown.FindAllString(string(text), -1)
	}
	if !slices.Equal(places[english], places[chinese]) {
		t.Errorf("the headings and pictures are\n%q\n%q", places[english], places[chinese])
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
	for _, p := range drawn(t) {
		for _, theme := range svg.Themes() {
			if name := "pictures/" + p.name + "-" + theme.Name + ".svg"; !bytes.Contains(text, []byte(name)) {
				t.Errorf("no page shows %s", name)
			}
		}
	}
}
