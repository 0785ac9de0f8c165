//go:build linux

package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"leasehold/cmd/leasehold/internal/demo"
	"leasehold/lab/servers"
)

// Each schedule shows what it is about: the command checks by counts and by the order of
// answers that the hand-written lock failed and ours did not, and says so by its code.
func TestDemosShowHowHandWrittenLocksFail(t *testing.T) {
	redis, zookeeper := servers.Redis(t, nil), servers.ZooKeeper(t, nil)
	nodes, err := zookeeper.Monitored("zk_znode_count")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("all", func(t *testing.T) {
		for _, d := range demo.All() {
			t.Run(d.Name, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				args := []string{"demo", d.Name}
				switch d.Name {
				case "redlock-restart", "failover": // they start their own
				case "herd", "zk-tutorial":
					args = append(args, "--server", "zookeeper://"+zookeeper.Addr)
				case "del":
					args = append(args, "--server", "redis+unix://"+redis.Socket)
				case "getset":
					args = append(args, "--server", "valkey://"+redis.Addr+"/1")
				default:
					args = append(args, "--server", "redis://"+redis.Addr)
				}
				code, out, err := p.leasehold(args...)
				if code != 0 {
					t.Fatalf("exit code %d: %s\n%s", code, err, out)
				}
				byHand, ours, found := strings.Cut(out, "The same with leasehold")
				if !found || !strings.Contains(out, "docs/from-your-lock.md#"+d.Anchor) {
					t.Errorf("it prints\n%s", out)
				}
				title, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
				recorded, readErr := os.ReadFile("../../lab/pictures/recordings/" + d.Name + ".txt")
				if readErr != nil || !strings.HasPrefix(string(recorded), title+"\n") {
					t.Errorf("the pages show a recording of another demo than %q (%v): make recordings", title, readErr)
				}
				// Two held at the same time, by the rows of the timeline, where that is the failure.
				switch d.Name {
				case "expire", "del", "getset", "zk-tutorial", "redlock-restart":
					if !strings.Contains(byHand, "<-- 2 hold") || strings.Contains(ours, "<-- 2 hold") {
						t.Errorf("who held is\n%s", out)
					}
				case "failover":
					if !strings.Contains(byHand, "<-- 2 hold") || !strings.Contains(ours, "refused") {
						t.Errorf("who held is\n%s", out)
					}
				}
			})
		}
	})
	if left, err := redis.Do("INFO", "keyspace"); err != nil || strings.Contains(left.(string), "keys=") {
		t.Errorf("what is left in Redis: %v, %v", left, err)
	}
	if now, err := zookeeper.Monitored("zk_znode_count"); err != nil || now != nodes {
		t.Errorf("ZooKeeper had %d nodes, and has %d: %v", nodes, now, err)
	}
}

// Without a server's URL a demo starts one, and a signal ends it and all processes.
func TestADemoThatIsInterruptedLeavesNothing(t *testing.T) {
	servers.Need(t, "redis-server")
	t.Parallel()
	p := newPlace(t)
	p.env = append(p.env, "TMPDIR="+t.TempDir())
	x := p.start("demo", "stale-writer")
	until(t, "a process is stopped", func() bool { return strings.Contains(x.out.String(), "is stopped") })
	children := below(x.Process.Pid)
	if len(children) != 3 {
		t.Errorf("it has %d children: a server and two processes are expected", len(children))
	}
	if err := x.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := x.wait(t); code != codeSignal+int(syscall.SIGINT) {
		t.Errorf("exit code %d: %s", code, &x.err)
	}
	for _, c := range children {
		if now, ok := look(c.pid); ok && now.started == c.started {
			t.Errorf("process %d goes on: %+v", c.pid, now)
		}
	}
	if left, err := os.ReadDir(strings.TrimPrefix(p.env[len(p.env)-1], "TMPDIR=")); err != nil || len(left) > 0 {
		t.Errorf("what is left: %v, %v", left, err)
	}
}

// A demo that is killed outright takes its processes along.
func TestADemoThatIsKilledLeavesNoProcess(t *testing.T) {
	servers.Need(t, "redis-server")
	t.Parallel()
	p := newPlace(t)
	p.env = append(p.env, "TMPDIR="+t.TempDir())
	x := p.start("demo", "stale-writer")
	until(t, "a process is stopped", func() bool { return strings.Contains(x.out.String(), "is stopped") })
	children := below(x.Process.Pid)
	x.Process.Kill()
	x.wait(t)
	for _, c := range children {
		until(t, "process "+strconv.Itoa(c.pid)+" has ended", func() bool {
			now, ok := look(c.pid)
			return !ok || now.started != c.started || now.state == "Z"
		})
	}
}

// Without the program the error says what to install.
func TestADemoWithoutServersSaysWhatToInstall(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.env = append(p.env, "PATH="+t.TempDir())
	for name, want := range map[string]string{"expire": "redis-server is not installed", "herd": "java is not installed", "failover": "redis-server is not installed"} {
		code, _, text := p.leasehold("demo", name)
		if code != codeUnavailable {
			t.Errorf("%s: exit code %d", name, code)
		}
		one(t, text, want, "apt install")
	}
}

// What is shown is both halves.
func TestAResultIsShownOnlyIfBothHalvesAreSo(t *testing.T) {
	for r, want := range map[demo.Result]bool{
		{ByHand: true}: true, {}: false, {ByHand: true, Ours: true}: false, {Ours: true}: false,
	} {
		if r.Shown() != want {
			t.Errorf("%+v: %v", r, r.Shown())
		}
	}
}

// Each demo says where to read on, and the page is there with that section and the demo.
func TestThePageHasASectionForEachDemo(t *testing.T) {
	page, err := os.ReadFile("../../docs/from-your-lock.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range demo.All() {
		if !strings.Contains(string(page), "(#"+d.Anchor+")") || !strings.Contains(string(page), "`demo "+d.Name+"`") {
			t.Errorf("the page has no link to #%s, or does not name `demo %s`", d.Anchor, d.Name)
		}
	}
}
