package servers

import (
	"errors"
	"testing"
)

func TestEtcdMemberIsCutOff(t *testing.T) {
	n := NewNetwork(t, "a", "b", "c")
	s := EtcdClusterOn(t, n, nil)
	leader, err := s.Leader()
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.opts.Host.Cut(); err != nil {
		t.Fatal(err)
	}
	if err := until(startBound, func() error {
		if next, err := s.Leader(); err != nil || next == leader {
			return errors.New("no other member leads")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
