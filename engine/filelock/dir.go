package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// errNoDir is returned if the environment names no place for state.
var errNoDir = errors.New("no directory for locks: HOME is not set; name one with --engine dir:///path or LEASEHOLD_ENGINE=dir:///path")

// DefaultDir returns the directory that all processes of this user use by default. It is
// the first of these that applies:
//
//  1. $STATE_DIRECTORY, as systemd sets it for a unit with StateDirectory=; of several
//     directories the first. (With StateDirectory=leasehold that is /var/lib/leasehold for
//     system units: the same as 3.)
//  2. $XDG_STATE_HOME/leasehold
//  3. /var/lib/leasehold, if the user is root
//  4. ~/.local/state/leasehold; on Windows %LocalAppData%\leasehold
//
// DefaultDir ignores relative paths in the environment, as the XDG specification demands.
// If nothing applies, the error says how to name a directory.
func DefaultDir() (string, error) {
	return defaultDir(os.Getenv, os.Geteuid() == 0, runtime.GOOS == "windows")
}

func defaultDir(getenv func(string) string, root, windows bool) (string, error) {
	first, _, _ := strings.Cut(getenv("STATE_DIRECTORY"), ":")
	switch {
	case windows:
		if d := getenv("LocalAppData"); filepath.IsAbs(d) {
			return filepath.Join(d, "leasehold"), nil
		}
		return "", errors.New("no directory for locks: LocalAppData is not set; name one with --engine or LEASEHOLD_ENGINE")
	case filepath.IsAbs(first):
		return filepath.Clean(first), nil
	case filepath.IsAbs(getenv("XDG_STATE_HOME")):
		return filepath.Join(getenv("XDG_STATE_HOME"), "leasehold"), nil
	case root:
		return "/var/lib/leasehold", nil
	case filepath.IsAbs(getenv("HOME")):
		return filepath.Join(getenv("HOME"), ".local", "state", "leasehold"), nil
	}
	return "", errNoDir
}
