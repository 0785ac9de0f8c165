// Package proc says what a server's processes take of the machine, from Linux's /proc
// (proc(5)).
package proc

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// CPU returns the CPU time of a process, of its children, and of those of its children
// that have ended, in hundredths of a second.
func CPU(pid int) (sum time.Duration, err error) {
	err = each(pid, func(pid int) error {
		used, err := cpuOf(pid)
		sum += used
		return err
	})
	return sum, err
}

// Memory returns what a process and its children take, in bytes. Each process counts its
// part of what several share (Pss).
func Memory(pid int) (sum int64, err error) {
	err = each(pid, func(pid int) error {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
				kib, err := strconv.ParseInt(f[1], 10, 64)
				if err != nil {
					return err
				}
				sum += kib << 10
			}
		}
		return nil
	})
	return sum, err
}

// each calls f for a process and its children. What f says of a child that has just
// ended is no error.
func each(pid int, f func(pid int) error) error {
	if err := f(pid); err != nil {
		return err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return err
	}
	for _, child := range strings.Fields(string(children)) {
		n, err := strconv.Atoi(child)
		if err != nil {
			return err
		}
		if err := f(n); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func cpuOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may contain anything.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 15 {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	var sum time.Duration
	for _, field := range fields[11:15] { // user, system; the children's
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ticks) * 10 * time.Millisecond
	}
	return sum, nil
}

// Connections returns how many TCP connections to a port of this machine are established,
// by IPv4 and IPv6.
func Connections(addr string) (n int, err error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return 0, err
	}
	const established = "01"
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(table)
		if err != nil && !os.IsNotExist(err) { // a machine without IPv6 has one
			return 0, err
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", number)) && f[3] == established {
				n++
			}
		}
	}
	return n, nil
}
