package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// program is a binary for one platform.
type program struct {
	platform
	path string
	info *buildinfo.BuildInfo
}

// file is the name of the binary where it is installed.
func (p program) file() string {
	if p.system == "windows" {
		return "leasehold.exe"
	}
	return "leasehold"
}

// tags are the build tags of a release. gRPC's pages of traces would bring html/template, and
// with it every method of every library: 13 MB.
const tags = "grpcnotrace"

// workspace ties the command to the modules of this tree that it needs. It stands in for go.work,
// which a published tree has not, and in which other modules may ask for newer libraries.
func (r *release) workspace(ctx context.Context) error {
	command := filepath.Join(r.tree, "cmd", "leasehold")
	c := exec.CommandContext(ctx, "go", "mod", "edit", "-json")
	c.Dir = command
	out, err := c.Output()
	if err != nil {
		return fmt.Errorf("read the go.mod of the command: %w", err)
	}
	var mod struct {
		Module  struct{ Path string }
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return err
	}
	r.module = strings.TrimSuffix(mod.Module.Path, "/cmd/leasehold")
	// Go reads the go.mod of the version that is required, also of a module of the workspace.
	edit := []string{"work", "edit", "-use", command}
	for _, m := range mod.Require {
		if below, ours := r.below(m.Path); ours {
			dir := filepath.Join(r.tree, filepath.FromSlash(below))
			edit = append(edit, "-use", dir, "-replace", m.Path+"@"+m.Version+"="+dir)
		}
	}
	r.gowork = filepath.Join(r.work, "go.work")
	for _, args := range [][]string{{"work", "init"}, edit} {
		c = exec.CommandContext(ctx, "go", args...)
		c.Dir, c.Env = r.work, append(os.Environ(), "GOWORK=")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("tie the modules together: %w\n%s", err, out)
		}
	}
	return nil
}

// below is the folder of a module of this tree, and whether it is one.
func (r *release) below(path string) (string, bool) {
	if path == r.module {
		return "", true
	}
	return strings.CutPrefix(path, r.module+"/")
}

// build builds the program for each platform.
func (r *release) build(ctx context.Context) (all []program, err error) {
	if err := r.workspace(ctx); err != nil {
		return nil, err
	}
	for _, p := range r.platforms {
		built, err := r.buildFor(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, built)
	}
	return all, nil
}

func (r *release) buildFor(ctx context.Context, p platform) (program, error) {
	dir := filepath.Join(r.work, "bin", p.String())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return program{}, err
	}
	built := program{platform: p}
	built.path = filepath.Join(dir, built.file())
	c := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X main.release="+r.version, "-o", built.path, ".")
	c.Dir = filepath.Join(r.tree, "cmd", "leasehold")
	c.Env = append(os.Environ(), "GOWORK="+r.gowork, "GOFLAGS=", "CGO_ENABLED=0", "GOOS="+p.system, "GOARCH="+p.arch,
		"GOAMD64=v1", "GOARM64=v8.0")
	if out, err := c.CombinedOutput(); err != nil {
		return program{}, fmt.Errorf("build for %s: %w\n%s", p, err, out)
	}
	var err error
	built.info, err = buildinfo.ReadFile(built.path)
	return built, err
}

// common writes what is the same on every platform: what the program says of itself, and the
// licences. It returns the folder.
func (r *release) common(ctx context.Context, programs []program) (dir string, err error) {
	dir = filepath.Join(r.work, "common")
	here := program{}
	for _, p := range programs {
		if p.system == runtime.GOOS && p.arch == runtime.GOARCH {
			here = p
		}
	}
	if here.path == "" {
		if here, err = r.buildFor(ctx, platform{runtime.GOOS, runtime.GOARCH}); err != nil {
			return "", err
		}
	}
	ask := func(args ...string) ([]byte, error) {
		c := exec.CommandContext(ctx, here.path, args...)
		c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.time.Unix(), 10))
		out, err := c.Output()
		if err != nil {
			err = fmt.Errorf("leasehold %s: %w", strings.Join(args, " "), err)
		}
		return out, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "completions"), 0o755); err != nil {
		return "", err
	}
	if _, err := ask("man", filepath.Join(dir, "man")); err != nil {
		return "", err
	}
	for shell, name := range map[string]string{"bash": "leasehold.bash", "zsh": "_leasehold", "fish": "leasehold.fish", "powershell": "leasehold.ps1"} {
		text, err := ask("completion", shell)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "completions", name), text, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	texts, err := r.licences(ctx, programs)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "THIRD-PARTY-LICENSES.txt"), texts, 0o644); err != nil {
		return "", err
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join(r.tree, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	return dir, nil
}
