package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bill writes what is in one program, as CycloneDX: each module with its version and the checksum
// that go.sum has of it. It is read from the program itself.
func (r *release) bill(to string, p program) error {
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("leasehold_%s_%s", r.number(), p)
	main := cdx.Component{
		BOMRef: "leasehold", Type: cdx.ComponentTypeApplication, Name: "leasehold", Version: r.version,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(binary))}},
	}
	library := "pkg:golang/std@" + strings.TrimPrefix(p.info.GoVersion, "go")
	parts := []cdx.Component{{BOMRef: library, Type: cdx.ComponentTypeLibrary, Name: "std", Version: strings.TrimPrefix(p.info.GoVersion, "go"), PackageURL: library}}
	needs := []string{library}
	for _, d := range p.info.Deps {
		if _, ours := r.below(d.Path); ours {
			continue // it is what Metadata describes
		}
		url := fmt.Sprintf("pkg:golang/%s@%s", d.Path, d.Version)
		part := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: d.Path, Version: d.Version, PackageURL: url}
		if d.Sum != "" {
			part.Properties = &[]cdx.Property{{Name: "go:sum", Value: d.Sum}}
		}
		parts, needs = append(parts, part), append(needs, url)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format("2006-01-02T15:04:05Z"), Component: &main}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	return create(filepath.Join(to, name+".cdx.json"), func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	})
}
