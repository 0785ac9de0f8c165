package clients

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"leasehold/lab/servers"
)

// within bounds each program that a test runs. The first installation is the slowest.
const within = 5 * time.Minute

// installed is the folder in which these commands have installed what the pinning files say:
// in the user's cache, so that it happens once. Each command runs in a new folder that has
// the files.
func installed(t *testing.T, language string, pins []string, commands ...[]string) string {
	t.Helper()
	servers.Need(t, commands[0][0])
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	fmt.Fprintln(sum, commands)
	for _, name := range pins {
		text, err := os.ReadFile(filepath.Join(language, name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	}
	above := filepath.Join(cache, "leasehold", "clients")
	dir := filepath.Join(above, language+"-"+hex.EncodeToString(sum.Sum(nil))[:16])
	done := filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err == nil {
		return dir
	}
	// A Python environment cannot be moved, so it grows in its place. Whoever comes first
	// makes it.
	if err := os.MkdirAll(above, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil { // one that was interrupted
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range pins {
		copied(t, filepath.Join(language, name), filepath.Join(dir, name))
	}
	for _, c := range commands {
		if out, err := output(t, dir, nil, c...); err != nil {
			os.RemoveAll(dir)
			servers.Missing(t, fmt.Sprintf("%v cannot be installed (%v): it is fetched once, and then stays in %s\n%s", c, err, above, last(out)))
		}
	}
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// output runs a program to its end, and returns all that it wrote.
func output(t *testing.T, dir string, env []string, command ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(os.Environ(), env...), time.Second
	return cmd.CombinedOutput()
}

// runs is output of a program that must succeed.
func runs(t *testing.T, dir string, env []string, command ...string) {
	t.Helper()
	if out, err := output(t, dir, env, command...); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, last(out))
	}
}

func copied(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o644)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
}

// last is the end of what a program said.
func last(out []byte) []byte {
	const most = 3000
	out = bytes.TrimSpace(out)
	return out[max(0, len(out)-most):]
}
