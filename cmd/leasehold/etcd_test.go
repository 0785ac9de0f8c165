//go:build linux

package main

import (
	"os"
	"testing"

	"leasehold/lab/servers"
)

// The command line on etcd: a run, who holds, and the name of one that was interrupted.
func TestRunOnEtcd(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, nil)
	p := newPlace(t)
	p.env = append(os.Environ(), "LEASEHOLD_ENGINE=etcd://"+s.Addr+"/cli")
	x := p.start("run", "r", "--ttl", "30s", "--", "sleep", "30")
	until(t, "it holds", func() bool { return p.held("r").TTL > 0 })
	if code, _, _ := p.answered("run", "r", "--ttl", "30s", "--nonblock", "--", "true"); code != 75 {
		t.Errorf("while it is held: exit code %d", code)
	}
	if err := x.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	x.wait(t)
	p.must("run", "r", "--ttl", "30s", "--wait", "20s", "--", "true") // before its TTL is over
}
