package engines

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"leasehold/engine"
	"leasehold/engine/filelock"
)

// openDir opens the embedded engine: dir:///path, dir:relative/path, or dir:
// for the default directory; ?force=true as filelock.Options.Force.
func openDir(_ context.Context, rawURL string) (engine.Engine, error) {
	dir, o, err := namedDir(rawURL)
	if err != nil {
		return nil, err
	}
	eng, err := filelock.New(dir, o)
	if err != nil {
		return nil, err
	}
	return eng, nil
}

// examineDir examines the directory that openDir would open.
func examineDir(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
	dir, options, err := namedDir(rawURL)
	if err != nil {
		return err
	}
	return filelock.Examine(ctx, dir, options, o, found)
}

// namedDir returns the directory that a URL names, or the default one, and how to open it.
func namedDir(rawURL string) (string, *filelock.Options, error) {
	dir, o, err := dirOf(rawURL)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	if dir == "" {
		dir, err = filelock.DefaultDir()
	}
	return dir, o, err
}

// dirOf returns the directory of a dir: URL, empty for the default one, and how to open
// it.
func dirOf(rawURL string) (string, *filelock.Options, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", nil, errors.Unwrap(err) // its text alone; the URL is in front already
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return "", nil, err
	case u.Host != "" || u.User != nil:
		return "", nil, fmt.Errorf("a directory has no host: give an absolute path three slashes, dir:///%s%s", u.Host, u.Path)
	case u.Fragment != "":
		return "", nil, fmt.Errorf("a # begins a fragment, which a directory has not: write %%23 for a # in the path")
	}
	o := &filelock.Options{}
	for key, values := range query {
		if key != "force" {
			return "", nil, fmt.Errorf("unknown option %q: known is force=true; write %%3F for a ? in the path", key)
		}
		if o.Force, err = strconv.ParseBool(values[0]); err != nil || len(values) > 1 {
			return "", nil, fmt.Errorf("force is neither true nor false: give one of the two")
		}
	}
	path := u.Path
	if u.Opaque != "" {
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return "", nil, err
		}
	}
	if strings.ContainsRune(path, 0) {
		return "", nil, fmt.Errorf("the path contains a NUL byte")
	}
	path = filepath.FromSlash(path)
	if runtime.GOOS == "windows" && len(path) > 2 && path[0] == '\\' && path[2] == ':' {
		path = path[1:] // dir:///C:/locks
	}
	return path, o, nil
}
