// Pictures draws the pictures of the pages into docs/pictures, each for pages with light
// and with dark ground:
//
//	go run ./lab/pictures
//
// A test holds that the committed files are those that it draws, and that every label fits
// in the widest font that readers have.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"leasehold/lab/internal/svg"
)

const folder = "docs/pictures"

// picture is one drawing and the name of its file.
type picture struct {
	name string
	draw func(svg.Theme) *svg.Canvas
}

func pictures() []picture {
	return []picture{{"queue", queue}, {"lease", lease}, {"fence", fence}}
}

func main() {
	if err := write(folder); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, p := range pictures() {
		if err := svg.Write(filepath.Join(folder, p.name), p.draw); err != nil {
			return err
		}
	}
	return nil
}

// What the pictures have in common, in pixels.
const (
	width = 760
	size  = 13 // of labels
)
