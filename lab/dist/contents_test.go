package main

import (
	"archive/tar"
	"debug/buildinfo"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestTheBillOfMaterialsIsWhatIsInTheProgram(t *testing.T) {
	f, err := os.Open(filepath.Join(the.first, "leasehold_0.9.0_linux_"+runtime.GOARCH+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(the.program)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"std": strings.TrimPrefix(info.GoVersion, "go")}
	for _, d := range info.Deps {
		if !strings.HasPrefix(d.Path+"/", strings.TrimSuffix(info.Main.Path, "cmd/leasehold")) {
			want[d.Path] = d.Version
		}
	}
	licences, err := inArchive(the.archive(), "THIRD-PARTY-LICENSES.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < 20 {
		t.Errorf("only %d modules are in the program: this shows nothing", len(want))
	}
	for _, c := range *bom.Components {
		if want[c.Name] != c.Version {
			t.Errorf("%s %s is not in the program", c.Name, c.Version)
		}
		delete(want, c.Name)
		if !strings.Contains(string(licences), "\n"+c.Name+" ") {
			t.Errorf("the licence of %s is missing", c.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("the bill lacks %v", want)
	}
	if bom.Metadata.Component.Version != "v0.9.0" || bom.Metadata.Timestamp != "2027-01-15T08:00:00Z" {
		t.Errorf("%+v", bom.Metadata)
	}
}

func TestAModuleWithoutAKnownLicenceIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "All rights reserved.": "", "GNU GENERAL PUBLIC LICENSE\nVersion 3\nMIT: Permission is hereby granted, free of charge, to any person obtaining a copy": "",
		"Permission is hereby granted,\nfree of charge, to any person obtaining a copy of": "MIT",
		"Mozilla Public License Version 2.0\nSecondary: the GNU General Public License":    "MPL-2.0",
	} {
		dir := t.TempDir()
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, "LICENSE.md"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		_, kind, err := licenceIn(dir)
		if kind != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q: %v", text, kind, err)
		}
	}
}

func TestTheImageIsWhole(t *testing.T) {
	dir := t.TempDir()
	unpack(t, filepath.Join(the.first, "leasehold_0.9.0_image.oci.tar"), dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	index, list := platformsOf(t, index)
	for _, m := range list.Manifests {
		if m.Platform.Architecture != runtime.GOARCH {
			continue
		}
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/usr/bin/leasehold" || config.Created.Unix() != 1800000000 || config.OS != "linux" {
			t.Errorf("%+v", config)
		}
		files := tar.NewReader(mutate.Extract(image))
		program := ""
		for {
			h, err := files.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if "/"+h.Name == config.Config.Entrypoint[0] {
				text, err := io.ReadAll(files)
				if err != nil {
					t.Fatal(err)
				}
				program = string(text)
			}
		}
		want, err := os.ReadFile(the.program)
		if err != nil || program != string(want) {
			t.Errorf("the image has another program, of %d bytes: %v", len(program), err)
		}
		return
	}
	t.Errorf("no image for this machine: %+v", list.Manifests)
}

// platformsOf is the only image of a layout: programs that copy one refuse a layout of several.
func platformsOf(t *testing.T, layout v1.ImageIndex) (v1.ImageIndex, *v1.IndexManifest) {
	t.Helper()
	top, err := layout.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "0.9.0" {
		t.Fatalf("index.json lists %+v, want one image, of the version", top.Manifests)
	}
	index, err := layout.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	return index, list
}

func TestTheImageIsOneForAllPlatforms(t *testing.T) {
	r := &release{version: "v0.9.0", time: time.Unix(1800000000, 0).UTC(), work: t.TempDir()}
	if err := os.Mkdir(filepath.Join(r.work, "common"), 0o755); err != nil {
		t.Fatal(err)
	}
	built := filepath.Join(r.work, "built")
	for _, file := range []string{built, filepath.Join(r.work, "common", "LICENSE"), filepath.Join(r.work, "common", "THIRD-PARTY-LICENSES.txt")} {
		if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var programs []program
	for _, arch := range []string{"amd64", "arm64"} {
		programs = append(programs, program{platform: platform{"linux", arch}, path: built})
	}
	to, dir := t.TempDir(), t.TempDir()
	if err := r.image(to, programs); err != nil {
		t.Fatal(err)
	}
	unpack(t, filepath.Join(to, "leasehold_0.9.0_image.oci.tar"), dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	_, list := platformsOf(t, index)
	var platforms []string
	for _, m := range list.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("the image is for %q, want %q", platforms, want)
	}
}

func unpack(t *testing.T, file, dir string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, filepath.Dir(h.Name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, h.Name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
