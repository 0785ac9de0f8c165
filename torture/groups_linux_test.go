package torture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// text makes a file.
func text(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheGroupOfThisProcess(t *testing.T) {
	const (
		old     = "30 23 0:26 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer"
		unified = "42 23 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate"
		disk    = "22 1 254:0 / / rw,relatime - ext4 /dev/cgroup2 rw"
	)
	for name, c := range map[string]struct {
		mounts, self []string
		want, fails  string
	}{
		"both versions": {[]string{disk, old, unified}, []string{"9:freezer:/a", "0::/user.slice/b"}, "/sys/fs/cgroup/unified/user.slice/b", ""},
		"the root":      {[]string{unified}, []string{"0::/"}, "/sys/fs/cgroup/unified", ""},
		"version 1":     {[]string{disk, old}, []string{"9:freezer:/a"}, "", "no cgroup v2"},
		"in none":       {[]string{unified}, []string{"9:freezer:/a"}, "", "in no group"},
	} {
		got, err := ownGroup(text(t, c.mounts...), text(t, c.self...))
		if got != c.want || (c.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := ownGroup(filepath.Join(t.TempDir(), "absent"), ""); err == nil {
		t.Error("a system without mounts has cgroup v2")
	}
}
