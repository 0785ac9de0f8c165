package main

import (
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// pack writes a package for one platform. It installs the command, its manual pages, its
// completions and the examples of units; it starts and enables nothing.
func (r *release) pack(to, kind string, p program, common string) error {
	contents, err := r.installed(kind, p, common)
	if err != nil {
		return err
	}
	var packager nfpm.PackagerWithExtension = deb.Default
	if kind == "rpm" {
		packager = rpm.DefaultRPM
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "leasehold", Arch: p.arch, Platform: p.system, Version: r.version, Release: "1", Section: "admin", Priority: "optional",
		Maintainer: "the authors of leasehold <leasehold@localhost.invalid>",
		License:    "Apache-2.0",
		Description: "Locks for shell scripts and services, across processes and machines\n" +
			"leasehold runs a command while it holds a name, exclusively, shared, or N at a time,\n" +
			"and ends the command when the lock is lost. It keeps its queues in a directory, or on a Redis,\n" +
			"PostgreSQL, MySQL, ZooKeeper or etcd.",
		MTime: r.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: contents,
			// A name of the building machine would be in the package.
			RPM: nfpm.RPM{BuildHost: "localhost", Summary: "Locks for shell scripts and services, across processes and machines", Group: "Unspecified"},
		},
	})
	if err := nfpm.PrepareForPackager(info, kind); err != nil {
		return err
	}
	return create(filepath.Join(to, packager.ConventionalFileName(info)), func(w io.Writer) error { return packager.Package(info, w) })
}

// installed lists what a package installs.
func (r *release) installed(kind string, p program, common string) (contents files.Contents, err error) {
	add := func(from, to string, mode fs.FileMode) {
		contents = append(contents, &files.Content{Source: from, Destination: to,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time}})
	}
	docs := "/usr/share/doc/leasehold"
	licence, zsh := docs+"/LICENSE", "/usr/share/zsh/site-functions/_leasehold"
	if kind == "deb" {
		licence, zsh = docs+"/copyright", "/usr/share/zsh/vendor-completions/_leasehold"
	}
	add(p.path, "/usr/bin/leasehold", 0o755)
	add(filepath.Join(common, "LICENSE"), licence, 0o644)
	for _, name := range []string{"README.md", "CHANGELOG.md", "THIRD-PARTY-LICENSES.txt"} {
		add(filepath.Join(common, name), path.Join(docs, name), 0o644)
	}
	completions := filepath.Join(common, "completions")
	add(filepath.Join(completions, "leasehold.bash"), "/usr/share/bash-completion/completions/leasehold", 0o644)
	add(filepath.Join(completions, "_leasehold"), zsh, 0o644)
	add(filepath.Join(completions, "leasehold.fish"), "/usr/share/fish/vendor_completions.d/leasehold.fish", 0o644)
	pages, err := entries(filepath.Join(common, "man"), "/usr/share/man/man1")
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		packed := filepath.Join(r.work, "man.gz", path.Base(page.name)+".gz")
		if err := squeeze(page.from, packed); err != nil {
			return nil, err
		}
		add(packed, page.name+".gz", 0o644)
	}
	examples, err := entries(filepath.Join(r.tree, "examples", "deploy"), docs+"/examples")
	if err != nil {
		return nil, err
	}
	for _, e := range examples {
		if !strings.HasSuffix(e.name, ".go") {
			add(e.from, e.name, 0o644)
		}
	}
	return contents, nil
}

// squeeze writes a file as gzip, without a name and a time in it.
func squeeze(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return create(to, func(w io.Writer) error {
		packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := packed.Write(text); err != nil {
			return err
		}
		return packed.Close()
	})
}
