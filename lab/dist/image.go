package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image writes the container image of all Linux platforms, as an archive of an OCI layout. The
// image has the command and nothing else, no shell and no certificates. It is for `leasehold
// serve`, exporter and doctor, and to copy the command from into another image.
func (r *release) image(to string, programs []program) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	images := 0
	for _, p := range programs {
		if p.system != "linux" {
			continue
		}
		image, err := r.imageFor(p)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: p.system, Architecture: p.arch},
		}})
		images++
	}
	if images == 0 {
		return nil
	}
	// index.json lists images, and all platforms are one of them. skopeo and podman refuse an
	// archive of several unless one is named, and of one name they take the first alone.
	whole := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": r.number()}},
	})
	dir := filepath.Join(r.work, "image")
	if _, err := layout.Write(dir, whole); err != nil {
		return err
	}
	all, err := entries(dir, "")
	if err != nil {
		return err
	}
	return create(filepath.Join(to, fmt.Sprintf("leasehold_%s_image.oci.tar", r.number())), func(w io.Writer) error { return r.tar(w, all) })
}

func (r *release) imageFor(p program) (v1.Image, error) {
	var files bytes.Buffer
	licence := filepath.Join(r.work, "common", "LICENSE")
	others := filepath.Join(r.work, "common", "THIRD-PARTY-LICENSES.txt")
	if err := r.tar(&files, []entry{{"usr/bin/leasehold", p.path, 0o755}, {"licenses/LICENSE", licence, 0o644}, {"licenses/THIRD-PARTY-LICENSES.txt", others, 0o644}}); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "leasehold " + r.version}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.system, p.arch, v1.Time{Time: r.time}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/leasehold"}, User: "65532:65532", WorkingDir: "/",
		Env: []string{"PATH=/usr/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title": "leasehold", "org.opencontainers.image.version": r.number(), "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}
