package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// recordings is where they are, from the root.
const recordings = "lab/pictures/recordings"

// names are those of the demos that are recorded.
var names = [...]string{
	"setnx", "expire", "del", "getset", "herd", "zk-tutorial", "redlock-restart", "failover", "stale-writer", "deadlock",
}

// record runs each demo, and keeps what it prints.
func record(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "leasehold-pictures")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "leasehold")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/leasehold")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building leasehold: %w", err)
	}
	if err := os.MkdirAll(recordings, 0o755); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	for _, name := range names {
		demo := exec.CommandContext(ctx, program, "demo", name)
		demo.Stderr = os.Stderr
		out, err := demo.Output()
		if err != nil {
			return fmt.Errorf("leasehold demo %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(recordings, name+".txt"), []byte(clean(string(out), host)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// clean is an output without the name of the machine, and without spaces at the ends of lines.
func clean(out, host string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		line = strings.ReplaceAll(line, `"`+host+` pid `, `"host pid `)
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return strings.TrimLeft(b.String(), "\n")
}

// demos are the pictures of the recordings of a folder.
func demos(recordings string) (all []picture, err error) {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(recordings, name+".txt"))
		if err != nil {
			return nil, err
		}
		r, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("the recording of %s: %w", name, err)
		}
		all = append(all, picture{"demo-" + name, timeline("leasehold demo "+name, r)})
	}
	return all, nil
}
