package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var (
	whole = flag.Bool("dist.whole", false, "build for every platform: some ten minutes of CPU")
	fresh = flag.Bool("dist.fresh", false, "compile everything anew for the second build, which doubles that")
)

// made is a release that the tests look at, built twice.
type made struct {
	first, second string // folders
	program       string // the binary for this machine
}

// the is the release of this run of the tests.
var the made

func TestMain(m *testing.M) {
	flag.Parse()
	if runtime.GOOS != "linux" {
		fmt.Println("MISSING: Linux: the tests of lab/dist are SKIPPED")
		return
	}
	dir, err := os.MkdirTemp("", "dist")
	if err != nil {
		panic(err)
	}
	code := 1
	if err := the.build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// build makes the release from two copies of the tree.
func (m *made) build(dir string) error {
	list := "linux/" + runtime.GOARCH
	if *whole {
		list = platforms
	}
	os.Setenv("SOURCE_DATE_EPOCH", "1800000000") // another time of day must not matter either
	trees := []string{filepath.Join(dir, "tree"), filepath.Join(dir, "deeper", "tree")}
	for _, tree := range trees { // both now: somebody may be at work here
		if err := copyTree(tree); err != nil {
			return err
		}
	}
	for i, to := range []*string{&m.first, &m.second} {
		*to = filepath.Join(dir, "release", fmt.Sprint(i))
		if *fresh && i > 0 {
			os.Setenv("GOCACHE", filepath.Join(dir, "cache"))
		}
		if err := run(context.Background(), []string{"-version", "v0.9.0", "-tree", trees[i], "-out", *to, "-platforms", list}); err != nil {
			return err
		}
	}
	m.program = filepath.Join(dir, "leasehold")
	text, err := inArchive(m.archive(), "leasehold")
	if err != nil {
		return err
	}
	return os.WriteFile(m.program, text, 0o755)
}

func (m *made) archive() string {
	return filepath.Join(m.first, "leasehold_0.9.0_linux_"+runtime.GOARCH+".tar.gz")
}

// copyTree copies the files of this tree that git knows of.
func copyTree(to string) error {
	root := filepath.Join("..", "..")
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil || !info.Mode().IsRegular() {
			continue // deleted, or a link
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), text, info.Mode().Perm())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inArchive reads one file of a tar.gz, by its last name.
func inArchive(file, name string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	for t := tar.NewReader(plain); ; {
		h, err := t.Next()
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", name, file, err)
		}
		if strings.HasSuffix(h.Name, "/"+name) {
			return io.ReadAll(t)
		}
	}
}

// need skips a test whose program is missing, or fails it where everything is required.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	missing(t, program)
	return ""
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("LEASEHOLD_REQUIRE") == "all" {
		t.Fatalf("MISSING: %s", what)
	}
	t.Skipf("MISSING: %s: this test is SKIPPED", what)
}

func must(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestTwoBuildsInDifferentFoldersAreEqual(t *testing.T) {
	sums := map[string]string{}
	for _, dir := range []string{the.first, the.second} {
		all, err := entries(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			text, err := os.ReadFile(e.from)
			if err != nil {
				t.Fatal(err)
			}
			sum := fmt.Sprintf("%x", sha256.Sum256(text))
			if dir == the.first {
				sums[e.name] = sum
			} else if sums[e.name] != sum {
				t.Errorf("%s differs", e.name)
			}
		}
		if len(all) != len(sums) || len(all) < 6 {
			t.Errorf("%d files, and the first build has %d", len(all), len(sums))
		}
	}
}

func TestTheChecksumsAreThoseOfEveryFile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(the.first, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := entries(the.first, "")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, e := range all {
		if e.name == "SHA256SUMS" {
			continue
		}
		body, err := os.ReadFile(e.from)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%x  %s", sha256.Sum256(body), e.name))
	}
	if got := strings.Split(strings.TrimSpace(string(text)), "\n"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// No library of the system is needed, and the name of no folder of the builder is in it.
func TestTheProgramIsStaticSmallAndSaysItsVersion(t *testing.T) {
	if out := must(t, the.program, "--version"); out != "leasehold version v0.9.0 "+runtime.Version()+"\n" {
		t.Errorf("it says %q", out)
	}
	f, err := elf.Open(the.program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if libraries, _ := f.ImportedLibraries(); len(libraries) > 0 {
		t.Errorf("it needs %q", libraries)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it needs a dynamic linker")
		}
	}
	text, err := os.ReadFile(the.program)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 29_000_000 {
		t.Errorf("it has %d bytes: does something use text/template, which keeps every method?", len(text))
	}
	home, _ := os.UserHomeDir()
	for _, folder := range []string{filepath.Dir(the.first), home + "/go/", os.TempDir() + "/dist"} {
		if bytes.Contains(text, []byte(folder)) {
			t.Errorf("it has the name of a folder of this machine: %s", folder)
		}
	}
}

// archived lists the files of an archive, with their modes.
func archived(t *testing.T, file string) map[string]fs.FileMode {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]fs.FileMode{}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		files[name] = h.FileInfo().Mode()
		if h.Uid != 0 || h.ModTime.Unix() != 1800000000 {
			t.Errorf("%s is of user %d, of %v", h.Name, h.Uid, h.ModTime)
		}
	}
}

func TestAnArchiveHasLicencePagesAndCompletions(t *testing.T) {
	files := archived(t, the.archive())
	for name, mode := range map[string]fs.FileMode{
		"leasehold": 0o755, "LICENSE": 0o644, "README.md": 0o644, "CHANGELOG.md": 0o644, "THIRD-PARTY-LICENSES.txt": 0o644,
		"man/leasehold.1": 0o644, "man/leasehold-run.1": 0o644, "completions/leasehold.bash": 0o644, "completions/_leasehold": 0o644,
		"completions/leasehold.fish": 0o644, "completions/leasehold.ps1": 0o644,
	} {
		if got, ok := files[name]; !ok || got != mode {
			t.Errorf("%s: %v, %v", name, ok, got)
		}
	}
	page, err := inArchive(the.archive(), "leasehold-run.1")
	if err != nil || !strings.Contains(string(page), `"Jan 2027"`) || !strings.Contains(string(page), "v0.9.0") {
		t.Errorf("the manual page is not of the release: %v\n%.300s", err, page)
	}
	bash := need(t, "bash")
	script, err := inArchive(the.archive(), "leasehold.bash")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), bash, "-n")
	c.Stdin = bytes.NewReader(script)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("bash does not read the completion: %v %s", err, out)
	}
}

func TestEveryPlatformIsThere(t *testing.T) {
	all, err := entries(the.first, "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		names = append(names, e.name)
	}
	host := runtime.GOOS + "_" + runtime.GOARCH
	wanted := []string{"leasehold_0.9.0_" + host + ".tar.gz", "leasehold_0.9.0_" + host + ".cdx.json", "leasehold_0.9.0_image.oci.tar"}
	built := []string{host} // all that a run without -dist.whole builds
	if *whole {
		built = []string{"darwin_arm64", "linux_arm64"}
		wanted = []string{
			"leasehold_0.9.0_linux_amd64.tar.gz", "leasehold_0.9.0_linux_arm64.tar.gz", "leasehold_0.9.0_darwin_amd64.tar.gz", "leasehold_0.9.0_darwin_arm64.tar.gz",
			"leasehold_0.9.0_windows_amd64.zip", "leasehold_0.9.0-1_amd64.deb", "leasehold_0.9.0-1_arm64.deb", "leasehold-0.9.0-1.x86_64.rpm", "leasehold-0.9.0-1.aarch64.rpm",
			"leasehold_0.9.0_image.oci.tar", "leasehold_0.9.0_windows_amd64.cdx.json",
		}
	}
	for _, want := range wanted {
		if !slices.Contains(names, want) {
			t.Errorf("there is no %s: %q", want, names)
		}
	}
	for _, p := range built {
		text, err := inArchive(filepath.Join(the.first, "leasehold_0.9.0_"+p+".tar.gz"), "leasehold")
		if err != nil {
			t.Fatal(err)
		}
		info, err := buildinfo.Read(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		system, arch, _ := strings.Cut(p, "_")
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if settings["GOOS"] != system || settings["GOARCH"] != arch || settings["CGO_ENABLED"] != "0" {
			t.Errorf("%s is %v", p, settings)
		}
	}
}
