//go:build linux

package main

import (
	"os"
	"strconv"
	"testing"
	"time"

	"leasehold/lab/servers"
)

// Every command on an engine whose claims live and die with a session.
func TestZooKeeper(t *testing.T) {
	t.Parallel()
	s := servers.ZooKeeper(t, &servers.ZooKeeperOptions{Tick: time.Second}) // which grants sessions of 20 s at most
	p := newPlace(t)
	p.env = append(os.Environ(), "LEASEHOLD_ENGINE=zookeeper://"+s.Addr)
	done := p.file("done")
	x := p.start("run", "z", "--", "sh", "-c", "until [ -e "+done+" ]; do sleep 0.05; done")
	until(t, "it holds", func() bool { return len(p.line("z").Claims) == 1 })
	if c := p.held("z"); c.TTL != 10 {
		t.Errorf("half of the longest session is 10 s, shown are %v", c.TTL)
	}
	if code, _, says := p.answered("run", "z", "--nonblock", "--", "true"); code != 75 {
		t.Errorf("exit code %d: %s", code, says)
	}
	if code, _, says := p.leasehold("acquire", "z2"); code != 64 {
		t.Errorf("acquire: exit code %d: %s", code, says)
	} else {
		one(t, says, "detached claims")
	}
	if code, _, says := p.leasehold("run", "z", "--ttl", "30s", "--", "true"); code == 0 {
		t.Error("a TTL that is not granted is taken")
	} else {
		one(t, says, "above this engine's 10s")
	}
	if out := p.must("ls"); out == "" {
		t.Error("ls shows nothing")
	}
	ticket := strconv.FormatUint(p.held("z").Ticket, 10)
	p.must("revoke", "z", "--ticket", ticket, "--yes")
	if code := x.wait(t); code != 76 {
		t.Errorf("revoked, and exit code %d: %s", code, x.err.String())
	}
	p.must("run", "z", "--wait", "30s", "--require", "cluster,fencing,no-double-grant", "--", "true")
}
