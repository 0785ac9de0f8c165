package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"leasehold/lab/servers"
)

var stranger = flag.Bool("stranger", false, "also check the published tree as its CI does, and get two versions mixed, and the command: some minutes more of downloads and builds")

const public = "example.com/locks/leasehold"

// outside is a user who has Go, and a module proxy of files.
type outside struct {
	*testing.T
	dir string
	env []string
}

// newcomer is one with an empty folder and an empty cache of modules. What others publish comes
// from the cache of this machine, which has the layout of a proxy, or else from where it
// always comes from. Go builds without paths, so that what an earlier run has built is found again.
func newcomer(t *testing.T, proxy string) outside {
	t.Helper()
	cache := goEnv(t, "GOMODCACHE")
	return outside{t, t.TempDir(), append(os.Environ(),
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache", "download")+","+goEnv(t, "GOPROXY"),
		"GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw -trimpath", "GOWORK=off", "GONOSUMDB="+public, "GONOPROXY=none", "GOPRIVATE=")}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// try runs a program in the user's folder, and returns what it printed.
func (u outside) try(program string, args ...string) (string, error) {
	u.Helper()
	c := exec.CommandContext(u.Context(), program, args...)
	c.Dir, c.Env = u.dir, u.env
	out, err := c.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func (u outside) must(program string, args ...string) string {
	u.Helper()
	out, err := u.try(program, args...)
	if err != nil {
		u.Fatal(err)
	}
	return out
}

func (u outside) file(name, text string) {
	u.Helper()
	if err := os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o644); err != nil {
		u.Fatal(err)
	}
}

// inSource skips what is about the tree that is published from: a published one has no such name.
func inSource(t *testing.T) {
	t.Helper()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	if err := source(dir); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
}

// published publishes this tree at some versions, one after the other, in one repository.
func published(t *testing.T, versions ...string) (tree, proxy string) {
	t.Helper()
	proxy, tree = t.TempDir(), filepath.Join(t.TempDir(), "leasehold")
	for _, v := range versions {
		if err := run([]string{"-module", public, "-version", v, "-out", tree, "-proxy", proxy, "-trial"}); err != nil {
			t.Fatal(err)
		}
	}
	return tree, proxy
}

// shown is the block of the published README that begins so.
func shown(t *testing.T, tree, begin string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tree, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n"+begin)
	block, _, ends := strings.Cut(rest, "```")
	if !found || !ends {
		t.Fatalf("the README has no block that begins with %q", begin)
	}
	return begin + block
}

const shop = `package main

import (
	"context"
	"fmt"
	"os"

	"example.com/locks/leasehold"
	"example.com/locks/leasehold/engine/redis"
)

func main() {
	eng, err := redis.Open(context.Background(), os.Args[1])
	if err != nil {
		panic(err)
	}
	locks, err := leasehold.New(eng, nil)
	if err != nil {
		panic(err)
	}
	defer locks.Close()
	l, err := locks.Lock(context.Background(), "stock")
	if err != nil {
		panic(err)
	}
	defer l.Unlock()
	fmt.Println("held with token", l.Token())
}
`

// A stranger with Go gets the library and one engine, and nothing of other engines; the command;
// the examples. Root and engine at two versions work together.
func TestAStrangerGetsIt(t *testing.T) {
	inSource(t)
	redis := "redis://" + servers.Redis(t, nil).Addr
	versions := []string{"v0.9.1"}
	if *stranger {
		versions = []string{"v0.9.0", "v0.9.1"}
	}
	tree, proxy := published(t, versions...)
	held := regexp.MustCompile(`held with token \d+`)

	t.Run("library and one engine", func(t *testing.T) {
		u := newcomer(t, proxy)
		u.must("sh", "-euc", shown(t, tree, "mkdir shop")) // in README.md
		u.dir = filepath.Join(u.dir, "shop")
		u.file("main.go", shown(t, tree, "package main"))
		u.must("go", "vet", ".")
		u.file("main.go", shop)
		if out := u.must("go", "run", ".", redis); !held.MatchString(out) {
			t.Errorf("the program printed %q", out)
		}
		all := u.must("go", "list", "-m", "all")
		for _, other := range []string{"pgx", "go-sql-driver", "etcd", "zookeeper", "cobra", "grpc"} {
			if strings.Contains(all, other) {
				t.Errorf("a user of Redis gets %s:\n%s", other, all)
			}
		}
	})
	t.Run("the tree", func(t *testing.T) {
		u := outside{t, tree, os.Environ()}
		tags := strings.Fields(u.must("git", "tag"))
		for _, tag := range []string{"v0.9.1", "engine/redis/v0.9.1", "cmd/leasehold/v0.9.1"} {
			if !slices.Contains(tags, tag) {
				t.Errorf("no tag %s among %v", tag, tags)
			}
		}
		for _, name := range []string{"go.work", "go.work.sum"} {
			if _, err := os.Stat(filepath.Join(tree, name)); err == nil {
				t.Errorf("the tree has %s", name)
			}
		}
		if out, err := u.try("git", "grep", "-nE", `^\s*(import )?"leasehold(/|"$)`, "--", "*.go"); err == nil {
			t.Errorf("the tree imports by the old path:\n%s", out)
		}
		if out, err := u.try("git", "grep", "-n", "=>", "--", "*go.mod"); err == nil {
			t.Errorf("the tree replaces modules:\n%s", out)
		}
		if log := u.must("git", "log", "--format=%s"); strings.Count(log, "\n") != len(versions) {
			t.Errorf("%d releases made these commits:\n%s", len(versions), log)
		}
		// What CI does there runs before anything is served. Its modules come from its folders.
		u.must("make", "-s", "work")
		u.must("make", "-s", "fmt-check")
		u.must("go", "list", "-deps", "./cmd/leasehold", "./lab/api")
		if !*stranger {
			return
		}
		u.must("go", "vet", ".", "./cmd/leasehold", "./service", "./lab/publish", "./with/tuslock")
		u.must("go", "test", "-short", "./lab/api", "./lab/dependencies", "./lab/readme", "./lab/prose", "./lab/publish")
		u.must("go", "test", "-run", "Apply", "./lab/faults")
		u.must("go", "run", "./lab/dependencies")
		for _, dir := range []string{".", "engine/redis", "cmd/leasehold"} {
			u.must(".ci/alone", dir, "sh", "-ec", "go build ./...; GOWORK=off go mod tidy $MODFILE -diff")
		}
		u.must("go", "test", "-run", "TestTwoVersionsShareALock/dir", "./lab/formats", "-rolling", "-rolling.commit", "v0.9.0")
	})
	if !*stranger {
		return
	}
	t.Run("what the API lost", func(t *testing.T) {
		deps, err := filepath.Abs(filepath.Join("..", "..", ".deps"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(deps, "bin", "apidiff")); err != nil {
			servers.Missing(t, "apidiff: run 'make deps'")
		}
		if err := os.Symlink(deps, filepath.Join(tree, ".deps")); err != nil {
			t.Fatal(err)
		}
		u := outside{t, tree, os.Environ()}
		if out := u.must("make", "-s", "api-since", "SINCE=v0.9.0"); !strings.Contains(out, public+": compatible") {
			t.Errorf("of the root module nothing is said:\n%s", out)
		}
	})
	t.Run("examples", func(t *testing.T) { // each has all engines
		u := newcomer(t, proxy)
		u.env = append(u.env, "LEASEHOLD_ENGINE="+redis)
		for _, example := range [][]string{{"cron", "-ticks", "2"}, {"floor", "-for", "1s"}, {"idgen", "-for", "1s"}, {"stock", "-pieces", "20"}} {
			u.must("go", append([]string{"run", public + "/examples/" + example[0] + "@v0.9.1"}, example[1:]...)...)
		}
	})
	t.Run("mixed versions", func(t *testing.T) {
		for _, newer := range []string{"", "/engine/redis"} {
			u := newcomer(t, proxy)
			u.file("main.go", shop)
			u.must("go", "mod", "init", "example.com/shop")
			u.must("go", "get", public+"@v0.9.0", public+"/engine/redis@v0.9.0")
			u.must("go", "get", public+newer+"@v0.9.1")
			if out := u.must("go", "run", ".", redis); !held.MatchString(out) {
				t.Errorf("with %q at v0.9.1, the program printed %q", newer, out)
			}
		}
	})
	t.Run("command", func(t *testing.T) {
		u := newcomer(t, proxy)
		install, _, _ := strings.Cut(shown(t, tree, "GOBIN="), "\n")
		u.must("sh", "-euc", install)
		u.env = append(u.env, "LEASEHOLD_ENGINE="+redis)
		if out := u.must(filepath.Join(u.dir, "bin", "leasehold"), "run", "hello", "--", "sh", "-c", "echo held with token $LEASEHOLD_TOKEN"); !held.MatchString(out) {
			t.Errorf("the command printed %q", out)
		}
	})
}

// A wrong path or version is refused before anything is written.
func TestWhatCannotBePublishedIsRefused(t *testing.T) {
	for _, c := range []struct{ module, version, says string }{
		{"leasehold", "v0.9.0", "-module"},
		{"example.com/Locks Two", "v0.9.0", "-module"},
		{public, "0.9.0", "not a version"},
		{public, "v0.9", "not a version"},
		{public, "v2.0.0", "/v2"},
		{public + "/v2", "v2.0.0", "nested modules"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		err := run([]string{"-module", c.module, "-version", c.version, "-out", out})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s at %s: %v", c.module, c.version, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s at %s: something was written", c.module, c.version)
		}
	}
}

// Only what names a package is renamed.
func TestOnlyPackagesAreRenamed(t *testing.T) {
	inSource(t)
	r := release{public, "v0.9.0"}
	rename := r.renaming([]string{"engine/doc.go", "lab/main.go", "docs/a.md"})
	for from, to := range map[string]string{
		`	"leasehold"`:                         `	"` + public + `"`,
		`import "leasehold"`:                   `import "` + public + `"`,
		`	lock "leasehold" // ours`:            `	lock "` + public + `" // ours`,
		` 	"leasehold"`:                        ` 	"` + public + `"`, // of a patch
		`	"leasehold/engine"`:                  `	"` + public + `/engine"`,
		"see `leasehold/engine/x`":             "see `" + public + "/engine/x`",
		`"leasehold/docs"`:                     `"leasehold/docs"`, // no packages
		`Prefix = "leasehold/"`:                `Prefix = "leasehold/"`,
		`./cmd/leasehold/engine`:               `./cmd/leasehold/engine`,
		`https://example.org/leasehold/engine`: `https://example.org/leasehold/engine`,
		`	"leasehold",`:                        `	"leasehold",`,
		`# package: leasehold`:                 `# package: ` + public,
	} {
		if got := rename([]byte(from)); !bytes.Equal(got, []byte(to)) {
			t.Errorf("%q became %q, want %q", from, got, to)
		}
	}
}
