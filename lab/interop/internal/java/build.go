package java

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

// ErrMissing: this machine has no Maven or no JDK, or Maven Central cannot be
// reached and what the build needs was never fetched before.
var ErrMissing = errors.New("the Java tool chain is missing")

//go:embed pom.xml src
var common embed.FS

// Source is a program that is not built yet.
type Source struct {
	Library string // whose clients it has: the property LIBRARY.version is its release
	Files   fs.FS  // java/pom.xml and java/src
}

// Program is a program that was built with one release of its library.
type Program struct {
	Library, Release string

	dir string // has driver.jar and lib
}

// Build compiles a program with a release of its library, or finds it compiled
// already in the user's cache folder: it is built anew when its source changes.
// Processes that build at the same time do not disturb each other.
//
// Errors: [ErrMissing]; else what Maven says.
func Build(ctx context.Context, source Source, release string) (*Program, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("a place to build in: %w", err)
	}
	sum, err := source.fingerprint()
	if err != nil {
		return nil, err
	}
	above := filepath.Join(cache, "leasehold", "interop")
	p := &Program{Library: source.Library, Release: release, dir: filepath.Join(above, source.Library+"-"+release+"-"+sum)}
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
	if err := source.compile(ctx, work, release); err != nil {
		return nil, err
	}
	// Whoever comes first puts it there complete; a second finds it and drops
	// its own, which is the same.
	if err := os.Rename(filepath.Join(work, source.Library, "java", "target"), p.dir); err != nil && !errors.Is(err, fs.ErrExist) {
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
func (s *Source) fingerprint() (string, error) {
	sum := sha256.New()
	for _, files := range []fs.FS{common, s.Files} {
		err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(files, path)
			if err != nil {
				return err
			}
			fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// unreachable is what Maven says when it cannot fetch something, as against
// what it says of a program that is wrong.
var unreachable = regexp.MustCompile(`(?i)could not (resolve|transfer)|unresolveable|cannot access .* in offline mode|unknown host`)

// compile builds in dir, where the folders lie as they do here: the program's pom
// names its parent, and that the common source, by the way to them.
func (s *Source) compile(ctx context.Context, dir, release string) error {
	own := filepath.Join(dir, s.Library)
	if err := errors.Join(os.CopyFS(filepath.Join(dir, "internal", "java"), common), os.CopyFS(own, s.Files)); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-Dstyle.color=never", "-D"+s.Library+".version="+release, "package")
	cmd.Dir = filepath.Join(own, "java")
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: Maven did not end in time: %w\n%s", ErrMissing, ctx.Err(), last(out))
	case unreachable.Match(out):
		return fmt.Errorf("%w: Maven Central cannot be reached, and not all of %s %s was fetched before:\n%s", ErrMissing, s.Library, release, last(out))
	}
	return fmt.Errorf("mvn package: %w\n%s", err, last(out))
}

// last is the end of what a program said, short enough for an error.
func last(out []byte) []byte {
	const most = 2000
	out = bytes.TrimSpace(out)
	return out[max(0, len(out)-most):]
}
