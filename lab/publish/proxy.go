package main

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// serve adds the modules of a written tree to a module proxy of files, as
// https://go.dev/ref/mod#goproxy-protocol describes one.
func (r release) serve(modules []string, tree, proxy string) error {
	for _, dir := range modules {
		name := path.Join(r.Module, dir)
		escaped, err := module.EscapePath(name)
		if err != nil {
			return err
		}
		at := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		info, err := json.Marshal(struct {
			Version string
			Time    time.Time
		}{r.Version, time.Unix(0, 0).UTC()})
		if err != nil {
			return err
		}
		mod, err := os.ReadFile(filepath.Join(tree, dir, "go.mod"))
		if err != nil {
			return err
		}
		for end, body := range map[string][]byte{".info": info, ".mod": mod} {
			if err := os.WriteFile(filepath.Join(at, r.Version+end), body, 0o644); err != nil {
				return err
			}
		}
		list, err := os.OpenFile(filepath.Join(at, "list"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = list.WriteString(r.Version + "\n")
		if err := list.Close(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		packed, err := os.Create(filepath.Join(at, r.Version+".zip"))
		if err != nil {
			return err
		}
		err = zip.CreateFromDir(packed, module.Version{Path: name, Version: r.Version}, filepath.Join(tree, dir))
		if err := packed.Close(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
	return nil
}
