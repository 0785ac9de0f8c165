package servers

import (
	"errors"
	"slices"
	"testing"
)

func TestEtcdKillStopRestart(t *testing.T) {
	m := Etcd(t, &EtcdOptions{TLS: true})
	if err := until(startBound, func() error {
		leads, err := m.IsLeader()
		if err == nil && !leads {
			err = errors.New("it does not lead")
		}
		return err
	}); err != nil {
		t.Fatalf("the only member: %v", err)
	}
	if err := m.Restart(); err != nil {
		t.Fatal(err)
	}
	backup, err := m.Backup()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Restore(backup); err != nil {
		t.Fatal(err)
	}
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := m.healthy(); err == nil {
		t.Error("a stopped member answers")
	}
	if err := m.Cont(); err != nil {
		t.Fatal(err)
	}
	if err := m.current().Until(startBound, m.healthy); err != nil {
		t.Errorf("it goes on: %v", err)
	}
}

func TestEtcdClusterElectsAnother(t *testing.T) {
	s := EtcdCluster(t, nil)
	old, err := s.Leader()
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	next, err := s.Leader()
	if err != nil || next == old {
		t.Fatalf("after the leader %s was killed: %v, %v", old.name, next, err)
	}
	if err := old.Restart(); err != nil {
		t.Fatal(err)
	}
	if len(s.Addrs()) != 3 || slices.Contains(s.Addrs(), "") {
		t.Errorf("addresses %q", s.Addrs())
	}
}
