package main

import (
	"archive/zip"
	"bytes"
	"debug/buildinfo"
	"debug/pe"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// zipped is a file of a zip.
type zipped struct {
	mode fs.FileMode
	text []byte
}

// unzipped reads the files of a zip, by their names without the folder that all are in.
func unzipped(t *testing.T, file, folder string) map[string]zipped {
	t.Helper()
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	files := map[string]zipped{}
	for _, f := range z.File {
		name, inside := strings.CutPrefix(f.Name, folder+"/")
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r) // which compares the checksum too
		r.Close()
		if err != nil || uint64(len(text)) != f.UncompressedSize64 {
			t.Errorf("%s: %d bytes of %d: %v", f.Name, len(text), f.UncompressedSize64, err)
		}
		if _, twice := files[name]; twice || !inside || f.Modified.Unix() != 1800000000 {
			t.Errorf("%s is of %v, twice: %v, want it once in %s", f.Name, f.Modified, twice, folder)
		}
		files[name] = zipped{f.Mode(), text}
	}
	return files
}

func TestAZipHasEveryFileOnceWithItsMode(t *testing.T) {
	common, to := t.TempDir(), t.TempDir()
	exe := filepath.Join(t.TempDir(), "built")
	text := strings.Repeat("a program ", 10_000)
	for name, text := range map[string]string{exe: text, filepath.Join(common, "LICENSE"): "take it", filepath.Join(common, "man", "leasehold.1"): ".TH"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &release{version: "v0.9.0", time: time.Unix(1800000000, 0).UTC()}
	if err := r.archive(to, program{platform: platform{"windows", "amd64"}, path: exe}, common); err != nil {
		t.Fatal(err)
	}
	files := unzipped(t, filepath.Join(to, "leasehold_0.9.0_windows_amd64.zip"), "leasehold_0.9.0_windows_amd64")
	for name, want := range map[string]zipped{"leasehold.exe": {0o755, []byte(text)}, "LICENSE": {0o644, []byte("take it")}, "man/leasehold.1": {0o644, []byte(".TH")}} {
		if got := files[name]; got.mode != want.mode || !bytes.Equal(got.text, want.text) {
			t.Errorf("%s: %v, %d bytes", name, got.mode, len(got.text))
		}
	}
	if len(files) != 3 {
		t.Errorf("it has %d files, want 3", len(files))
	}
}

func TestTheZipForWindowsIsWhole(t *testing.T) {
	if !*whole {
		t.Skip("no zip for Windows is built: this test is SKIPPED without -dist.whole")
	}
	files := unzipped(t, filepath.Join(the.first, "leasehold_0.9.0_windows_amd64.zip"), "leasehold_0.9.0_windows_amd64")
	exe := files["leasehold.exe"].text
	for name, mode := range archived(t, the.archive()) { // but for the program they are the same
		if name == "leasehold" {
			name += ".exe"
		} else if want, err := inArchive(the.archive(), name); err != nil || !bytes.Equal(files[name].text, want) {
			t.Errorf("%s is another than in the archive for Linux: %v", name, err)
		}
		if files[name].mode != mode {
			t.Errorf("%s has the mode %v, want %v", name, files[name].mode, mode)
		}
		delete(files, name)
	}
	for name := range files {
		t.Errorf("the archive for Linux has no %s", name)
	}
	p, err := pe.NewFile(bytes.NewReader(exe))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := p.OptionalHeader.(*pe.OptionalHeader64); !ok || p.Machine != pe.IMAGE_FILE_MACHINE_AMD64 || len(exe) < 10_000_000 {
		t.Errorf("the program is for the machine %#x, of %d bytes", p.Machine, len(exe))
	}
	info, err := buildinfo.Read(bytes.NewReader(exe))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(info.Main.Path, "cmd/leasehold") || info.GoVersion != runtime.Version() {
		t.Errorf("it is %s, by %s", info.Main.Path, info.GoVersion)
	}
}
