package servers

import (
	"strings"
	"testing"
)

func TestZooKeeperKillStopRestart(t *testing.T) {
	s := ZooKeeper(t, nil)
	before, err := s.Zxid()
	if err != nil {
		t.Fatal(err)
	}
	if mode, err := s.Mode(); err != nil || mode != "standalone" {
		t.Fatal(mode, err)
	}
	if n, err := s.Monitored("zk_znode_count"); err != nil || n < 1 {
		t.Fatal(n, err)
	}
	if err := s.Restart(true); err != nil {
		t.Fatal(err)
	}
	if after, err := s.Zxid(); err != nil || after != before {
		t.Errorf("new %s, forgotten and new again %s: %v", before, after, err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Mode(); err == nil {
		t.Error("killed, and it answers")
	}
}

func TestZooKeeperEnsembleElectsALeader(t *testing.T) {
	e := ZooKeeperEnsemble(t, nil)
	var leader *ZooKeeperServer
	if err := until(startBound, func() (err error) { leader, err = e.Leader(); return err }); err != nil {
		t.Fatalf("%v\n%s", err, e.Tail())
	}
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := until(startBound, func() error { _, err := e.Leader(); return err }); err != nil {
		t.Fatalf("%v\n%s", err, e.Tail())
	}
	if len(e.Addrs()) != 3 || strings.Count(e.Tail(), "java.log") != 3 {
		t.Errorf("%v\n%s", e.Addrs(), e.Tail())
	}
}
