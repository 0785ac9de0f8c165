// Pictures draws the pictures of the pages into docs/pictures, each for pages with light
// and with dark ground:
//
//	go run ./lab/pictures
//
// Those of the demos are drawn from recordings of what leasehold printed. With -record it
// runs each demo and writes the recordings first:
//
//	go run ./lab/pictures -record
//
// A test holds that the committed files are those that it draws, and that every label fits
// in the widest font that readers have.
package main

import (
	"context"
	"flag"
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

func pictures(recordings string) ([]picture, error) {
	all := []picture{{"queue", queue}, {"lease", lease}, {"fence", fence}}
	recorded, err := demos(recordings)
	return append(all, recorded...), err
}

func main() {
	again := flag.Bool("record", false, "run the demos and record them again")
	flag.Parse()
	if err := run(context.Background(), *again); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, again bool) error {
	if again {
		if err := record(ctx); err != nil {
			return err
		}
	}
	return write(folder, recordings)
}

func write(folder, recordings string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	all, err := pictures(recordings)
	if err != nil {
		return err
	}
	for _, p := range all {
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
