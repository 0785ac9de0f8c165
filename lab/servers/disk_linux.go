package servers

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cutPower is ext4's request to end at once, with its flag not to write its journal first
// (EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH).
const (
	cutPower      = 0x8004587d
	withoutWrites = 2
)

func shutDown(fd uintptr) error { return unix.IoctlSetPointerInt(int(fd), cutPower, withoutWrites) }

func syncAll(fd uintptr) error { return unix.Syncfs(int(fd)) }

// workingIn are the processes whose working folder is dir or in it.
func workingIn(dir string) (pids []int, err error) {
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		// One that has ended meanwhile has none.
		at, err := os.Readlink(link)
		if err != nil || at != dir && !strings.HasPrefix(at, dir+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}
