package torture

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// groups are the control groups (cgroup v2) of a trial: one folder, and in it one for each
// client. What is done to the folder is done to all clients. A trial that is killed with
// SIGKILL leaves the folders behind, with no process in them.
type groups struct{ dir string }

// newGroups makes the folder in the group of this process, or says why it cannot.
func newGroups() (*groups, error) {
	own, err := ownGroup("/proc/self/mountinfo", "/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	g := &groups{filepath.Join(own, "leasehold-torture-"+strings.ToLower(rand.Text()[:10]))}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("control groups cannot be made: %w: run it as root, or where the group is delegated", err)
	}
	return g, nil
}

// ownGroup is the folder of the control group that this process is in.
func ownGroup(mounts, self string) (string, error) {
	root, err := field(mounts, func(line string) string {
		// The folder is the fifth word. The kind follows a dash.
		before, after, _ := strings.Cut(line, " - ")
		if f := strings.Fields(before); strings.HasPrefix(after, "cgroup2 ") && len(f) > 4 {
			return f[4]
		}
		return ""
	})
	if err != nil {
		return "", fmt.Errorf("there is no cgroup v2: %w", err)
	}
	path, err := field(self, func(line string) string {
		path, _ := strings.CutPrefix(line, "0::")
		if path == line {
			return ""
		}
		return path
	})
	if err != nil {
		return "", fmt.Errorf("this process is in no group of cgroup v2: %w", err)
	}
	return filepath.Join(root, path), nil
}

// field is the first of what find finds in the lines of a file.
func field(path string, find func(line string) string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if found := find(lines.Text()); found != "" {
			return found, nil
		}
	}
	return "", errors.Join(fmt.Errorf("%s has none", path), lines.Err())
}

// of is the folder of some clients: of one, or of all.
func (g *groups) of(hit []*client) string {
	if len(hit) == 1 {
		return filepath.Join(g.dir, hit[0].name)
	}
	return g.dir
}

// add makes a group for a client. The client enters it by itself, before it has a
// connection: that would stay in the group in which it was made.
func (g *groups) add(name string) (dir string, err error) {
	dir = filepath.Join(g.dir, name)
	return dir, os.Mkdir(dir, 0o755)
}

// enter puts this process into a group.
func enter(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0)
}

// remove removes the group of a client that has ended. What cannot be removed is in the way
// of end.
func (g *groups) remove(name string) { _ = os.Remove(filepath.Join(g.dir, name)) }

// end removes the folder when all clients have ended.
func (g *groups) end() error { return os.Remove(g.dir) }

// frozen is how long the kernel may take to freeze a group: a process that waits for a disk
// is frozen when that has answered.
const frozen = 5 * time.Second

// freeze stops all processes of a folder until thaw.
func freeze(ctx context.Context, dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("1"), 0); err != nil {
		return err
	}
	for end := time.Now().Add(frozen); ; wait(ctx, time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
		switch {
		case err != nil:
			return err
		case strings.Contains(string(text), "frozen 1"):
			return nil
		case ctx.Err() != nil || time.Now().After(end):
			return fmt.Errorf("%s is not frozen within %v", dir, frozen)
		}
	}
}

func thaw(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("0"), 0)
}
