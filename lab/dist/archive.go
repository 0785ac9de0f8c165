package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// entry is a file to be installed.
type entry struct {
	name string // with slashes
	from string
	mode fs.FileMode
}

// entries lists a folder's files below a name, in order.
func entries(dir, below string) (all []entry, err error) {
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		all = append(all, entry{path.Join(below, filepath.ToSlash(name)), file, 0o644})
		return err
	})
	return all, err
}

// archive writes the archive of one platform: a zip for Windows, a tar.gz for the others.
func (r *release) archive(to string, p program, common string) error {
	top := fmt.Sprintf("leasehold_%s_%s", r.number(), p)
	all, err := entries(common, top)
	if err != nil {
		return err
	}
	all = append(all, entry{path.Join(top, p.file()), p.path, 0o755})
	if p.system == "windows" {
		return r.zip(filepath.Join(to, top+".zip"), all)
	}
	return create(filepath.Join(to, top+".tar.gz"), func(w io.Writer) error {
		packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		if err := r.tar(packed, all); err != nil {
			return err
		}
		return packed.Close()
	})
}

// tar writes files, of root, and the time of the release.
func (r *release) tar(w io.Writer, all []entry) error {
	t := tar.NewWriter(w)
	for _, e := range all {
		text, err := os.ReadFile(e.from)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(text)), ModTime: r.time, Uname: "root", Gname: "root", Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(text); err != nil {
			return err
		}
	}
	return t.Close()
}

func (r *release) zip(file string, all []entry) error {
	return create(file, func(w io.Writer) error {
		z := zip.NewWriter(w)
		for _, e := range all {
			text, err := os.ReadFile(e.from)
			if err != nil {
				return err
			}
			h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.time}
			h.SetMode(e.mode)
			f, err := z.CreateHeader(h)
			if err != nil {
				return err
			}
			if _, err := f.Write(text); err != nil {
				return err
			}
		}
		return z.Close()
	})
}

// create writes a file.
func create(file string, write func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// sums writes SHA256SUMS, which `sha256sum -c` reads.
func sums(dir string) error {
	all, err := entries(dir, "")
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	var list bytes.Buffer
	for _, e := range all {
		text, err := os.ReadFile(e.from)
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(text), e.name)
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), list.Bytes(), 0o644)
}
