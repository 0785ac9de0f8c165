package main

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// proc is a process as /proc shows it.
type proc struct {
	pid, parent int
	started     string // with the pid, unique since boot
	state       string // a letter, see proc(5)
}

// below lists the processes below root, at any depth, but not spared ones and what is below these.
func below(root int, spared ...proc) (found []proc) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	children := map[int][]proc{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := look(pid); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	// A pid used again while the list was read could make a loop of it.
	seen := map[int]bool{root: true}
	for todo := []int{root}; len(todo) > 0; {
		next := todo[0]
		todo = todo[1:]
		for _, p := range children[next] {
			if !seen[p.pid] && !slices.ContainsFunc(spared, p.same) {
				seen[p.pid] = true
				found = append(found, p)
				todo = append(todo, p.pid)
			}
		}
	}
	return found
}

// look reads one process, unless it is dead already.
func look(pid int) (p proc, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	// pid (name) state ppid ... : the name may hold anything, so from its end.
	_, rest, ok := cutLast(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 || fields[0] == "X" {
		return p, false
	}
	// A process whose first thread has ended is shown as a zombie, while its other threads run on.
	if threads := fields[17]; fields[0] == "Z" && (threads == "0" || threads == "1") {
		return p, false
	}
	parent, err := strconv.Atoi(fields[1])
	return proc{pid, parent, fields[19], fields[0]}, err == nil
}

func (p proc) same(other proc) bool { return p.pid == other.pid && p.started == other.started }

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// kill kills the process that was seen, and not one that got its pid since:
// the descriptor pins whoever has the pid, and then it is looked at again.
func (p proc) kill() {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == unix.ENOSYS { // before Linux 5.3
		_ = unix.Kill(p.pid, unix.SIGKILL)
		return
	}
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, ok := look(p.pid); ok && now.same(p) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}
