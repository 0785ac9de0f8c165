package filelock

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"leasehold/internal/boottime"
)

// knowsBoot: deadlines are never mistaken for those of another boot, so that a
// claim may outlive its client.
const knowsBoot = true

// bootClock is the machine's identity since it started, and the clock of
// deadlines: CLOCK_BOOTTIME, the same in every process of the machine. A time
// namespace shifts it, which is undone here, so that a container may share a
// directory with its host.
func bootClock() (boot [16]byte, clock func() time.Duration, err error) {
	const path = "/proc/sys/kernel/random/boot_id"
	text, err := os.ReadFile(path)
	if err != nil {
		return boot, nil, fmt.Errorf("this boot cannot be told from others (is /proc mounted?): %w", err)
	}
	id, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err != nil || len(id) != len(boot) {
		return boot, nil, fmt.Errorf("%s says %q, which is no boot id", path, text)
	}
	copy(boot[:], id)
	shift, err := bootShift()
	if err != nil {
		return boot, nil, err
	}
	if shift == 0 {
		return boot, boottime.Now, nil
	}
	return boot, func() time.Duration { return boottime.Now() - shift }, nil
}

// bootShift is what this process's time namespace adds to CLOCK_BOOTTIME.
func bootShift() (time.Duration, error) {
	f, err := os.Open("/proc/self/timens_offsets")
	if os.IsNotExist(err) {
		return 0, nil // a kernel without time namespaces
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var clock string
		var s, ns int64
		if n, _ := fmt.Sscan(lines.Text(), &clock, &s, &ns); n == 3 && (clock == "boottime" || clock == "7") {
			return time.Duration(s)*time.Second + time.Duration(ns), nil
		}
	}
	return 0, nil
}
