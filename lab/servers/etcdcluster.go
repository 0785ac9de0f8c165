package servers

import (
	"errors"
	"sync"
	"time"
)

// EtcdSetup is one cluster.
type EtcdSetup struct {
	Members []*EtcdServer
}

// EtcdCluster starts three members for a test.
func EtcdCluster(t TB, o *EtcdOptions) *EtcdSetup {
	t.Helper()
	return etcdFor(t, o, make([]*Host, 3))
}

// StartEtcdCluster starts three members, for a program.
func StartEtcdCluster(o *EtcdOptions) (*EtcdSetup, error) {
	if o == nil {
		o = &EtcdOptions{}
	}
	return startEtcd(o, make([]*Host, 3))
}

// EtcdClusterOn is EtcdCluster with a member on each of the first three hosts.
func EtcdClusterOn(t TB, n *Network, o *EtcdOptions) *EtcdSetup {
	t.Helper()
	return etcdFor(t, o, n.Hosts[:3])
}

// Healthy waits until every member that lives can commit.
func (s *EtcdSetup) Healthy(bound time.Duration) error {
	for _, m := range s.Members {
		if !m.Alive() {
			continue
		}
		if err := m.current().Until(bound, m.healthy); err != nil {
			return err
		}
	}
	return nil
}

// Leader is the living member that leads.
func (s *EtcdSetup) Leader() (leader *EtcdServer, err error) {
	return leader, until(startBound, func() error {
		for _, m := range s.Members {
			if !m.Alive() {
				continue
			}
			if leads, err := m.IsLeader(); err == nil && leads {
				leader = m
				return nil
			}
		}
		return errors.New("no member leads")
	})
}

// Addrs are the members' addresses for clients.
func (s *EtcdSetup) Addrs() (addrs []string) {
	for _, m := range s.Members {
		addrs = append(addrs, m.Addr)
	}
	return addrs
}

// Backup kills all members and returns copies of their data, which Restore puts in the
// place of what they have by then.
func (s *EtcdSetup) Backup() (dirs []string, err error) {
	if err := s.each((*EtcdServer).Kill); err != nil {
		return nil, err
	}
	for _, m := range s.Members {
		dir, err := m.copied()
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, s.each((*EtcdServer).Restart)
}

// Restore puts copies back, and starts the members with them when all were ended: one
// that went on would tell the others what they are to have forgotten.
func (s *EtcdSetup) Restore(copies []string) error {
	if err := s.each((*EtcdServer).Kill); err != nil {
		return err
	}
	for i, m := range s.Members {
		if err := m.replace(copies[i]); err != nil {
			return err
		}
	}
	return s.each((*EtcdServer).Restart)
}

// each does the same to all members at once.
func (s *EtcdSetup) each(do func(*EtcdServer) error) error {
	errs := make([]error, len(s.Members))
	var all sync.WaitGroup
	for i, m := range s.Members {
		all.Go(func() { errs[i] = do(m) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Tail is the end of every log.
func (s *EtcdSetup) Tail() string { return tails(s.Members) }

// Close ends all members.
func (s *EtcdSetup) Close() error { return closeAll(s.Members) }
