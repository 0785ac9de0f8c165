package redisson

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// Releases of Redisson that locks are shared with.
const (
	Current = "4.7.0"
	// Old is what many older articles use: it has no unlock latch and no fenced
	// lock, and it publishes with PUBLISH on a Cluster as well.
	Old = "3.13.2"
)

// ErrMissing: this machine has no Maven or no JDK, or Maven Central cannot be
// reached and what the build needs was never fetched before.
var ErrMissing = errors.New("the Java tool chain is missing")

//go:embed java/pom.xml java/src
var source embed.FS

// Program is the Java program, built with one release of Redisson.
type Program struct {
	Release string
	dir     string // has driver.jar and lib
}

// Build compiles the program with a release of Redisson, or finds it compiled
// already in the user's cache folder: it is built anew when its source changes.
// Processes that build at the same time do not disturb each other.
//
// Errors: [ErrMissing]; else what Maven says.
func Build(ctx context.Context, release string) (*Program, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("a place to build in: %w", err)
	}
	sum, err := fingerprint()
	if err != nil {
		return nil, err
	}
	above := filepath.Join(cache, "leasehold", "interop")
	p := &Program{Release: release, dir: filepath.Join(above, "redisson-"+release+"-"+sum)}
	if _, err := os.Stat(p.dir); err == nil {
		return p, p.java()
	}
	for _, program := range []string{"mvn", "javac"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: %s is not installed: run `make deps`", ErrMissing, program)
		}
	}
	if err := os.MkdirAll(above, 0o755); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(above, "build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	if err := compile(ctx, work, release); err != nil {
		return nil, err
	}
	// Whoever comes first puts it there complete; a second finds it and drops
	// its own, which is the same.
	if err := os.Rename(filepath.Join(work, "java", "target"), p.dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return p, nil
}

func (p *Program) java() error {
	if _, err := exec.LookPath("java"); err != nil {
		return fmt.Errorf("%w: java is not installed: run `make deps`", ErrMissing)
	}
	return nil
}

// fingerprint is different for different sources.
func fingerprint() (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := source.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil))[:16], err
}

// unreachable is what Maven says when it cannot fetch something, as against
// what it says of a program that is wrong.
var unreachable = regexp.MustCompile(`(?i)could not (resolve|transfer)|unresolveable|cannot access .* in offline mode|unknown host`)

func compile(ctx context.Context, dir, release string) error {
	if err := os.CopyFS(dir, source); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-Dstyle.color=never", "-Dredisson.version="+release, "package")
	cmd.Dir = filepath.Join(dir, "java")
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: Maven did not end in time: %w\n%s", ErrMissing, ctx.Err(), last(out))
	case unreachable.Match(out):
		return fmt.Errorf("%w: Maven Central cannot be reached, and not all of Redisson %s was fetched before:\n%s", ErrMissing, release, last(out))
	}
	return fmt.Errorf("mvn package: %w\n%s", err, last(out))
}

// last is the end of what a program said, short enough for an error.
func last(out []byte) []byte {
	const most = 2000
	out = bytes.TrimSpace(out)
	return out[max(0, len(out)-most):]
}
