//go:build linux

package main

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/cmd/leasehold/internal/demo"
	"leasehold/lab/servers"
)

// Each schedule shows what it is about: the command checks by counts and by the order of
// answers that the hand-written lock failed and ours did not, and says so by its code.
func TestDemosShowHowHandWrittenLocksFail(t *testing.T) {
	t.Parallel()
	redis, zookeeper := servers.Redis(t, nil), servers.ZooKeeper(t, &servers.ZooKeeperOptions{Tick: time.Second})
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

// The user's server may be several, and may speak TLS. A demo removes there what it made,
// too: on each primary of a Cluster. A short run has one demo on each kind of Redis, and leaves
// the servers of ZooKeeper out.
func TestDemosRunOnEveryKindOfServer(t *testing.T) {
	t.Parallel()
	sentinel, cluster := servers.Sentinel(t, nil), servers.RedisCluster(t, nil)
	secure := servers.Redis(t, &servers.RedisOptions{TLS: true, Password: "sesame"})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{
		"redis-sentinel://" + sentinel.Sentinels[1].Addr + "," + sentinel.Sentinels[0].Addr + "/" + sentinel.Master: {"expire", "getset"},
		"redis-cluster://" + cluster.Nodes[1].Addr + "," + cluster.Nodes[0].Addr:                                    {"setnx", "deadlock"},
		"rediss://" + secure.TLSAddr + "/2?ca=" + secure.CAFile + "&password-file=" + password:                      {"del", "stale-writer"},
	}
	nothingLeft := func() {} // in ZooKeeper
	if testing.Short() {
		for url, demos := range all {
			all[url] = demos[:1]
		}
	} else {
		ensemble := servers.ZooKeeperEnsemble(t, nil)
		secured, ca := secureFront(t, ensemble.Servers[0].Addr)
		all["zookeepers://"+secured+"?ca="+ca] = []string{"zk-tutorial"}
		all["zookeeper://"+ensemble.Servers[1].Addr+","+ensemble.Servers[2].Addr] = []string{"herd"}
		nodes, err := ensemble.Servers[0].Monitored("zk_znode_count")
		if err != nil {
			t.Fatal(err)
		}
		nothingLeft = func() {
			until(t, "ZooKeeper has the nodes that it had", func() bool {
				now, err := ensemble.Servers[0].Monitored("zk_znode_count")
				return err == nil && now == nodes
			})
		}
	}
	t.Run("all", func(t *testing.T) {
		for url, demos := range all {
			for _, name := range demos {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					if code, out, err := newPlace(t).leasehold("demo", name, "--server", url); code != 0 {
						t.Fatalf("exit code %d: %s\n%s", code, err, out)
					}
				})
			}
		}
	})
	for _, s := range append([]*servers.RedisServer{sentinel.Nodes[0], secure}, cluster.Nodes[:3]...) {
		if left, err := s.Do("INFO", "keyspace"); err != nil || strings.Contains(left.(string), "keys=") {
			t.Errorf("what is left in Redis: %v, %v", left, err)
		}
	}
	nothingLeft()
}

// secureFront speaks TLS in front of a server, as its secure port does.
func secureFront(t *testing.T, target string) (addr, ca string) {
	t.Helper()
	certs := servers.MakeCerts(t)
	own, err := tls.LoadX509KeyPair(certs.Cert, certs.Key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", target)
			if err != nil {
				from.Close()
				return
			}
			go func() { io.Copy(to, from); to.Close() }()
			go func() { io.Copy(from, to); from.Close() }()
		}
	}()
	return l.Addr().String(), certs.CA
}

// What a demo cannot use is refused in words, and before it starts a process.
func TestADemoRefusesAServerItCannotUse(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"expire etcd://h":                                            "runs on Redis: give redis://",
		"expire zookeeper://h":                                       "runs on Redis: give redis://",
		"expire redlock://h,i,j":                                     "runs on Redis: give redis://",
		"herd redis://h":                                             "runs on ZooKeeper: give zookeeper://",
		"failover redis-sentinel://h/main":                           "so it starts its own: leave --server out",
		"redlock-restart redis://h":                                  "so it starts its own: leave --server out",
		"expire redis://h?layout=plain":                              `unknown parameter "layout": known are ca`,
		"expire redis://h?prefix=x":                                  `unknown parameter "prefix"`,
		"expire redis://h?ca=/x":                                     "ca= is for TLS",
		"expire rediss://h?ca=/absent":                               "read the certificate authority",
		"expire redis-sentinel://h":                                  "does not name the primary",
		"expire redis-sentinel://h/m?sentinel-password-file=/absent": "read the password",
		"expire redis://h/x":                                         "is not the number of a database",
		"herd zookeeper://u@h":                                       "does not log in to ZooKeeper",
		"herd zookeepers://h":                                        "is not host:port",
	} {
		name, url, _ := strings.Cut(server, " ")
		code, out, err := newPlace(t).leasehold("demo", name, "--server", url)
		if code != codeUsage || out != "" {
			t.Errorf("%s: exit code %d, %q", server, code, out)
		}
		one(t, err, "--server cannot be used: ", want)
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
