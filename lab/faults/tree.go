package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tree is the copy that faults are planted in.
type tree struct {
	dir   string
	bound time.Duration
	clean map[string]verdict // by package and tests: how they end without a fault
}

// verdict is what became of one fault.
type verdict struct {
	noticed bool
	why     string
	said    string // by whoever stood in the way
}

func (v verdict) word() string {
	if v.noticed {
		return "noticed"
	}
	return "NOT NOTICED"
}

// copyFrom copies what git knows of root, and what is new there and not
// ignored, as it is on disk: a fault can be tried before anything is committed.
func (t *tree) copyFrom(ctx context.Context, root string) error {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		from, to := filepath.Join(root, name), filepath.Join(t.dir, name)
		info, err := os.Stat(from)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			return err
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, info.Mode().Perm()); err != nil {
			return err
		}
	}
	// What `make deps` built is ignored, and tests look for it above them: without it
	// they would run what else is installed, or skip.
	deps, err := filepath.Abs(filepath.Join(root, ".deps"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(deps); err != nil {
		return nil // nothing was built
	}
	return os.Symlink(deps, filepath.Join(t.dir, ".deps"))
}

// try plants one fault, runs its test and takes the fault out again. The error
// is about the copy: it can be used no further.
func (t *tree) try(ctx context.Context, f fault) (verdict, error) {
	without, err := t.without(ctx, f)
	if err != nil || without.noticed {
		return verdict{why: "its test is red without it", said: without.said}, err
	}
	if said, err := t.apply(ctx, f, "--whitespace=nowarn"); err != nil {
		return verdict{why: "it no longer applies", said: said}, ctx.Err()
	}
	v, err := t.test(ctx, f, "-count=1")
	if err != nil {
		return v, err
	}
	if said, err := t.apply(ctx, f, "--whitespace=nowarn", "--reverse"); err != nil {
		return v, fmt.Errorf("it cannot be taken out again: %w\n%s", err, said)
	}
	return v, nil
}

// without is how the tests of f end before it is planted, found out once.
func (t *tree) without(ctx context.Context, f fault) (verdict, error) {
	key := f.pkg + " " + f.tests
	if v, known := t.clean[key]; known {
		return v, nil
	}
	v, err := t.test(ctx, f)
	if t.clean == nil {
		t.clean = map[string]verdict{}
	}
	t.clean[key] = v
	return v, err
}

// apply runs git apply in the copy. The copy is no repository, and one that it
// may lie in must not be found: git would then leave out, in silence, whatever
// is not below the copy.
func (t *tree) apply(ctx context.Context, f fault, flags ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append(append([]string{"apply"}, flags...), f.path)...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(t.dir))
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// test runs the tests of f in the copy as it is: noticed means that they are
// red. Code that does not compile is not what a test noticed. The paths are
// trimmed, so that what did not change is built once for all copies; vet stays
// out of it, since a fault that only vet sees was not seen by a test.
func (t *tree) test(ctx context.Context, f fault, flags ...string) (verdict, error) {
	args := []string{"test", "-json", "-trimpath", "-vet=off", "-timeout", t.bound.String(), "-run", f.tests}
	cmd := exec.CommandContext(ctx, "go", append(append(args, flags...), f.pkg)...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "GOWORK=") // the copy's, whatever is set outside
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return verdict{}, ctx.Err()
	}
	failed, skipped, ran, text := events(out)
	text += said.String()
	if err == nil {
		if !ran {
			return verdict{why: fmt.Sprintf("no test of %s that matches %s was run", f.pkg, f.tests), said: text}, nil
		}
		if skipped != "" {
			return verdict{why: skipped + " was skipped, and nothing red", said: text}, nil
		}
		return verdict{why: fmt.Sprintf("%s is green: %s", f.pkg, f.tests), said: text}, nil
	}
	if !ran {
		return verdict{why: "nothing was run: does it compile?", said: text}, nil
	}
	if failed == "" {
		failed = f.pkg
	}
	return verdict{noticed: true, why: failed, said: text}, nil
}

// events reads what go test -json says: the first test that failed, the first that
// was skipped, whether any was run, and the text in between.
func events(out []byte) (failed, skipped string, ran bool, text string) {
	var b strings.Builder
	for line := range bytes.Lines(out) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			b.Write(line) // go itself speaks
			continue
		}
		switch e.Action {
		case "run":
			ran = true
		case "output", "build-output":
			b.WriteString(e.Output)
		case "skip":
			skipped = cmp.Or(skipped, e.Test)
		case "fail":
			if failed == "" {
				failed = e.Test
			}
		}
	}
	return failed, skipped, ran, b.String()
}
