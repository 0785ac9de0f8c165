package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"leasehold/lab/servers/fleet"
)

// file is the shelf that needs no server: a file in the directory of the fleet.
type file struct{}

const name = "left"

// fill puts the pieces on the shelf.
func fill(dir string, pieces int) error {
	return os.WriteFile(filepath.Join(dir, name), fmt.Appendln(nil, pieces), 0o600)
}

func (file) read(context.Context) (int, error) {
	text, err := os.ReadFile(filepath.Join(fleet.Dir(), name))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (file) write(_ context.Context, left int) error {
	// A name of its own, then rename: nobody ever reads half a number.
	path := filepath.Join(fleet.Dir(), name)
	draft := fmt.Sprintf("%s.%d", path, fleet.Place())
	if err := os.WriteFile(draft, fmt.Appendln(nil, left), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, path)
}
