package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is one that is in a program.
type module struct {
	path, version string
	kind          string // of its licence, as SPDX names it
	texts         []string
}

// modules lists what is in some programs, with the licence of each, by path. The standard
// library is the first.
func (r *release) modules(ctx context.Context, programs []program) (all []module, err error) {
	dirs, err := r.folders(ctx)
	if err != nil {
		return nil, err
	}
	library := module{path: "std", version: programs[0].info.GoVersion}
	library.texts, library.kind, err = licenceIn(dirs["std"])
	if err != nil {
		return nil, fmt.Errorf("the licence of Go: %w", err)
	}
	seen := map[string]bool{}
	for _, p := range programs {
		for _, d := range p.info.Deps {
			if _, ours := r.below(d.Path); ours || seen[d.Path] {
				continue // of this house: LICENSE is theirs
			}
			seen[d.Path] = true
			m := module{path: d.Path, version: d.Version}
			m.texts, m.kind, err = licenceIn(dirs[d.Path])
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", d.Path, d.Version, err)
			}
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return append([]module{library}, all...), nil
}

// folders are where the sources of the modules are, by path.
func (r *release) folders(ctx context.Context) (map[string]string, error) {
	c := exec.CommandContext(ctx, "go", "list", "-m", "-json=Path,Dir", "all")
	c.Dir, c.Env = filepath.Join(r.tree, "cmd", "leasehold"), append(os.Environ(), "GOWORK="+r.gowork, "GOFLAGS=")
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("list the modules: %w", err)
	}
	dirs := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Dir string }
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		dirs[m.Path] = m.Dir
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	dirs["std"] = strings.TrimSpace(string(root))
	return dirs, err
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([.-].*)?$`)

// licenceIn reads the licence of a module: every file that has one or a notice. A module
// without one may not be given to anybody.
func licenceIn(dir string) (texts []string, kind string, err error) {
	if dir == "" {
		return nil, "", errors.New("its source is not on this machine: run go mod download")
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", err
	}
	var kinds []string
	for _, f := range files {
		if f.IsDir() || !licenceFile.MatchString(f.Name()) || strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, "", err
		}
		texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
		if k := kindOf(string(text)); k != "" && !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return nil, "", fmt.Errorf("%s has no licence that lab/dist knows: read it, and add its kind, or do without the module", dir)
	}
	return texts, strings.Join(kinds, " AND "), nil
}

// kindOf names a licence by its own words. Only licences that allow a program to be given away
// in binary form with their text beside it are known here.
func kindOf(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	has := func(words string) bool { return strings.Contains(text, words) }
	switch {
	case strings.HasPrefix(text, "mozilla public license version 2.0"): // it names the others
		return "MPL-2.0"
	case has("gnu general public license"), has("gnu lesser general public license"), has("gnu affero"):
		return ""
	case has("apache license, version 2.0"), has("apache license version 2.0"):
		return "Apache-2.0"
	case has("redistribution and use in source and binary forms") && (has("neither the name") || has("names of its contributors") || has("may be used to endorse")):
		return "BSD-3-Clause"
	case has("redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("permission is hereby granted, free of charge, to any person obtaining a copy"):
		return "MIT"
	case has("permission to use, copy, modify, and/or distribute this software for any"), has("permission to use, copy, modify, and distribute this software for any"):
		return "ISC"
	}
	return ""
}

// licences is one file with the licence of all that is in the programs.
func (r *release) licences(ctx context.Context, programs []program) ([]byte, error) {
	all, err := r.modules(ctx, programs)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "leasehold %s is under the Apache License 2.0. Its programs contain these modules, each under its own licence.\n"+
		"The source of a module, unchanged, is what any Go module proxy has under its path and version.\n", r.version)
	for _, m := range all {
		fmt.Fprintf(&b, "\n%s\n%s %s (%s)\n%[1]s\n", strings.Repeat("=", 80), m.path, m.version, m.kind)
		for _, text := range m.texts {
			fmt.Fprintf(&b, "\n%s\n", text)
		}
	}
	return b.Bytes(), nil
}
