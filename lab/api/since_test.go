//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"leasehold/lab/servers"
)

// .ci/api-since names what each module has lost, and a module that is lost as a whole.
func TestWhatIsLostSinceAVersionIsNamed(t *testing.T) {
	apidiff, err := filepath.Abs(filepath.Join("..", "..", ".deps", "bin", "apidiff"))
	if err == nil {
		_, err = os.Stat(apidiff)
	}
	if err != nil {
		servers.Missing(t, "apidiff: run 'make deps'")
	}
	scripts := map[string]string{".ci/api-since": "", ".ci/alone": ""}
	for name := range scripts {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		scripts[name] = string(text)
	}
	const module, sub = "module example.com/m\n\ngo 1.26\n", "module example.com/m/sub\n\ngo 1.26\n"
	type files = map[string]string // an empty one is deleted
	for what, c := range map[string]struct {
		change files
		ok     bool
		want   []string
	}{
		"nothing":                           {nil, true, []string{"example.com/m: compatible", "example.com/m/sub: compatible"}},
		"one more":                          {files{"more/go.mod": "module example.com/m/more\n\ngo 1.26\n", "more/a.go": "package more\n"}, true, []string{"example.com/m/more: new", "example.com/m/sub: compatible"}},
		"a lost name":                       {files{"a.go": "package m\n"}, false, []string{"example.com/m:\n", "F: removed", "example.com/m/sub: compatible"}},
		"a lost module":                     {files{"sub/go.mod": "", "sub/a.go": ""}, false, []string{"example.com/m/sub: gone", "example.com/m: compatible"}},
		"a program of the lab that is lost": {files{"lab/go.mod": ""}, true, []string{"example.com/m/sub: compatible"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(tree files) {
				t.Helper()
				for name, text := range tree {
					name = filepath.Join(dir, name)
					err := os.MkdirAll(filepath.Dir(name), 0o755)
					if text == "" {
						err = os.Remove(name)
					} else if err == nil {
						err = os.WriteFile(name, []byte(text), 0o755)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			git := func(args ...string) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("git %s: %v\n%s", args, err, out)
				}
			}
			write(scripts)
			write(files{"go.work": "go 1.26\n\nuse (\n\t.\n\t./sub\n)\n", "go.mod": module, "a.go": "package m\n\nfunc F() {}\n",
				"sub/go.mod": sub, "sub/a.go": "package sub\n\nfunc G() {}\n", "lab/go.mod": "module example.com/m/lab\n"})
			if err := os.MkdirAll(filepath.Join(dir, ".deps", "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(apidiff, filepath.Join(dir, ".deps", "bin", "apidiff")); err != nil {
				t.Fatal(err)
			}
			git("init", "-q")
			git("add", "*.go", "*.mod", "go.work")
			git("commit", "-q", "-m", "before")
			write(c.change)
			git("add", "-A", "*.go", "*.mod")
			out, err := exec.CommandContext(t.Context(), filepath.Join(dir, ".ci", "api-since"), "HEAD").CombinedOutput()
			if (err == nil) != c.ok {
				t.Errorf("%v\n%s", err, out)
			}
			for line := range strings.Lines(string(out)) {
				if !strings.Contains(line, ":") {
					t.Errorf("it says of %q nothing", line)
				}
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("nothing says %q:\n%s", want, out)
				}
			}
		})
	}
}
