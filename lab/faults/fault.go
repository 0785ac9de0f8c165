package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A fault is one thing that is wrong, and the test that must see it.
type fault struct {
	name  string // of its file, without the folder and .patch
	path  string // of its file, absolute
	what  string
	pkg   string
	tests string // a regular expression as go test -run takes it
}

// readFaults reads the *.patch files of a folder, in the order of their names.
func readFaults(dir string) ([]fault, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var faults []fault
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if f.path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		f.name = strings.TrimSuffix(filepath.Base(path), ".patch")
		faults = append(faults, f)
	}
	return faults, nil
}

// parse reads the lines above the diff. All three are needed, once each.
func parse(text string) (f fault, err error) {
	fields := map[string]*string{"fault": &f.what, "package": &f.pkg, "test": &f.tests}
	diff := false
	for line := range strings.Lines(text) {
		comment, found := strings.CutPrefix(line, "# ")
		if !found {
			diff = strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "--- ")
			break
		}
		key, value, _ := strings.Cut(comment, ":")
		field := fields[key]
		if field == nil || *field != "" {
			return f, fmt.Errorf("%q is not one of fault, package and test, or the second of its kind", key)
		}
		*field = strings.TrimSpace(value)
	}
	for _, key := range []string{"fault", "package", "test"} {
		if *fields[key] == "" {
			return f, fmt.Errorf("it begins without a line \"# %s: ...\"", key)
		}
	}
	if !diff {
		return f, fmt.Errorf("no diff follows the lines that say what it is for")
	}
	if _, err := regexp.Compile(f.tests); err != nil {
		return f, fmt.Errorf("test: %w", err)
	}
	return f, nil
}
