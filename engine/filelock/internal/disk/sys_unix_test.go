//go:build linux || darwin || freebsd

package disk

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAnOpenThatMetASymbolicLink(t *testing.T) {
	for _, c := range []struct {
		system   string
		err      error
		stranger bool
	}{
		{"linux", unix.ELOOP, true},
		{"darwin", unix.ELOOP, true},
		{"freebsd", unix.EMLINK, true},
		{"linux", unix.EMLINK, false},
		{"freebsd", unix.EACCES, false},
		{runtime.GOOS, nil, false},
	} {
		if got := IsStranger(notFollowed(c.system, c.err)); got != c.stranger {
			t.Errorf("%s, %v: a stranger %v, want %v", c.system, c.err, got, c.stranger)
		}
	}
}
