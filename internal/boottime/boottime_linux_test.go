package boottime

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"leasehold/lab/servers"
)

// inside is the environment variable that tells this test's binary that it runs
// in the time namespace.
const inside = "LEASEHOLD_BOOTTIME_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" {
		fmt.Println(int64(Now()))
		return
	}
	os.Exit(m.Run())
}

// A test cannot suspend the machine. It can run where CLOCK_BOOTTIME, and no
// other clock, is ahead: that is what suspension does to it.
func TestTimeSuspendedCounts(t *testing.T) {
	const suspended = 100_000 * time.Second
	unshare := []string{"unshare", "--time", "--boottime", fmt.Sprint(int64(suspended.Seconds()))}
	if os.Getuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	servers.Need(t, unshare[0])
	if out, err := exec.CommandContext(t.Context(), unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		servers.Missing(t, fmt.Sprintf("no time namespaces here: %v: %s", err, out))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := Now()
	cmd := exec.CommandContext(t.Context(), unshare[0], append(unshare[1:], self)...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	after := Now()
	var there time.Duration
	if _, err := fmt.Sscan(strings.TrimSpace(string(out)), (*int64)(&there)); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	if there < before+suspended || there > after+suspended {
		t.Errorf("%v there, %v to %v here: not %v more", there, before, after, suspended)
	}
}

func TestItNeverGoesBack(t *testing.T) {
	last := Now()
	for range 100_000 {
		now := Now()
		if now < last {
			t.Fatalf("%v, then %v", last, now)
		}
		last = now
	}
}
