package servers

import "golang.org/x/sys/unix"

// cutPower is ext4's request to end at once, with its flag not to write its journal first
// (EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH).
const (
	cutPower      = 0x8004587d
	withoutWrites = 2
)

func shutDown(fd uintptr) error { return unix.IoctlSetPointerInt(int(fd), cutPower, withoutWrites) }

func syncAll(fd uintptr) error { return unix.Syncfs(int(fd)) }
