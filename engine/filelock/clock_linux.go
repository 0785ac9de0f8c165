package filelock

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"leasehold/internal/boottime"
)

// knowsBoot: deadlines are not mistaken for those of another boot, so that a claim
// may outlive its client. (Where the kernel's identity is masked, a claim of an
// earlier boot may stand for up to its TTL once more, and never ends early.)
const knowsBoot = true

const minTTL = 0 // the clock has no steps to speak of

// bootClock is the kernel's identity since it started, zero if that is not
// known, and the clock of deadlines: CLOCK_BOOTTIME, the same in every process of
// the machine. A time namespace shifts it, which is undone here, so that a
// container may share a directory with its host.
func bootClock() (boot [16]byte, clock func() time.Duration, err error) {
	boot, err = bootID("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return boot, nil, err
	}
	shift, err := bootShift()
	if err != nil {
		return boot, nil, err
	}
	if shift == 0 {
		return boot, boottime.Now, nil
	}
	return boot, func() time.Duration { return boottime.Now() - shift }, nil
}

// bootID reads the kernel's identity since it started. Containers mask it:
// systemd-nspawn and LXC mount a file with an identity of the container's own over
// it. What is not a file of the kernel's own says nothing, and neither does one that
// says something else each time.
func bootID(path string) (boot [16]byte, err error) {
	for range 2 {
		f, err := os.Open(path)
		if err != nil {
			return boot, fmt.Errorf("find out which boot this is: %w; mount /proc", err)
		}
		defer f.Close()
		masked, err := isMasked(f)
		if err != nil {
			return boot, err
		}
		text, err := io.ReadAll(io.LimitReader(f, 64))
		if err != nil {
			return boot, err
		}
		id, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
		if masked || err != nil || len(id) != len(boot) {
			return [16]byte{}, nil
		}
		if boot != ([16]byte{}) && boot != [16]byte(id) {
			return [16]byte{}, nil
		}
		boot = [16]byte(id)
	}
	return boot, nil
}

// isMasked reports whether a file below /proc is none of the kernel's own.
func isMasked(f *os.File) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return false, os.NewSyscallError("fstatfs", err)
	}
	return st.Type != unix.PROC_SUPER_MAGIC, nil
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
	if masked, err := isMasked(f); err != nil || masked {
		return 0, cmp.Or(err, errors.New("find out whether this process has the machine's clock: /proc/self/timens_offsets is masked; mount /proc"))
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var clock string
		var s, ns int64
		if n, _ := fmt.Sscan(lines.Text(), &clock, &s, &ns); n == 3 && (clock == "boottime" || clock == "7") {
			return time.Duration(s)*time.Second + time.Duration(ns), nil
		}
	}
	return 0, nil
}
