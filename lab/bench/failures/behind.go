package main

import (
	"context"
	"fmt"
	"time"

	"leasehold/engines"
	"leasehold/lab/servers"
)

// These engines lose the locks that they have granted: their disks did not have them yet, or a
// replica that had not received them takes over. The holder is cut off for good, so that it
// learns of that as late as it can: when its lease ends.

// diskFor is one whose power is cut by the fault, else nil.
func diskFor(s *stage, fault string) *servers.Disk {
	if fault != powerCut {
		return nil
	}
	return servers.PowerlessDisk(s)
}

// powerless cuts the power of all servers. Their disk has what they are set up with.
func powerless[M interface{ Kill() error }](s *stage, disk *servers.Disk, all []M, cut func() error, start func(M) error) func() error {
	s.must(disk.Sync())
	return func() error {
		if err := cut(); err != nil {
			return err
		}
		if err := each(all, M.Kill); err != nil {
			return err
		}
		if lost, err := disk.CutPower(); err != nil || lost == 0 {
			return fmt.Errorf("the disk lost %d bytes that were not synced: %w", lost, err)
		}
		return each(all, start)
	}
}

// managedRedis is a primary and a replica behind one address. The replica receives nothing any
// more, and then takes over.
func managedRedis(s *stage, _ string) world {
	primary, replica := servers.Redis(s, nil), servers.Redis(s, nil)
	link, front := servers.ProxyTo(s, primary.Addr), servers.ProxyTo(s, primary.Addr)
	s.must(replica.Follow(link.Addr))
	link.BlackHole(true)
	w, cut, _ := cutting(s, "redis://%s?failover", front.Addr)
	w.do = takenOver(cut, primary.Kill, replica.Lead, front, replica.Addr)
	return w
}

// laggingPostgres is a server whose replica receives nothing any more, and then takes over.
func laggingPostgres(s *stage, _ string) world {
	primary := servers.Postgres(s, nil)
	link, front := servers.ProxyTo(s, primary.Addr), servers.ProxyTo(s, primary.Addr)
	replica := primary.Replica(s, link)
	installed(s, primary.URL("", ""))
	received(s, func() error {
		_, err := replica.Query("SELECT FROM leasehold.names")
		return err
	})
	link.BlackHole(true)
	w, cut, _ := cutting(s, "postgres://postgres@%s/postgres?sslmode=disable&failover", front.Addr)
	w.do = takenOver(cut, primary.Kill, replica.Promote, front, replica.Addr)
	return w
}

// laggingMariaDB is the same with MariaDB.
func laggingMariaDB(s *stage, _ string) world {
	primary := servers.MariaDBPrimary(s)
	link, front := servers.ProxyTo(s, primary.Addr), servers.ProxyTo(s, primary.Addr)
	replica := primary.Replica(s, link.Addr)
	installed(s, primary.URL("", ""))
	received(s, func() error {
		_, err := replica.Query("SELECT COUNT(*) FROM test.leasehold_names")
		return err
	})
	link.BlackHole(true)
	w, cut, _ := cutting(s, "mysql://root@%s/test?failover", front.Addr)
	w.do = takenOver(cut, primary.Kill, replica.Promote, front, replica.Addr)
	return w
}

// installed has the engine make its tables and functions, which a replica must have to be of use.
func installed(s *stage, url string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	eng, err := engines.Open(ctx, url)
	s.must(err)
	s.must(eng.Close())
}

// received waits until a replica has the tables.
func received(s *stage, has func() error) {
	err := has()
	for late := time.Now().Add(bound); err != nil && time.Now().Before(late); err = has() {
		time.Sleep(20 * time.Millisecond)
	}
	s.must(err)
}

// semiSynced is a server that commits nothing before its replica has received it, behind one
// address.
func semiSynced(s *stage, _ string) world {
	primary := servers.MariaDBPrimary(s)
	replica := primary.Replica(s, primary.Addr)
	s.must(primary.SemiSync(replica))
	front := servers.ProxyTo(s, primary.Addr)
	url := "mysql://root@" + front.Addr + "/test?failover"
	none := func() error { return nil }
	return world{holder: url, next: url, do: takenOver(none, primary.Kill, replica.Promote, front, replica.Addr)}
}

// takenOver has a replica take over behind one address, after the holder was cut off.
func takenOver(cut, kill, promote func() error, front *servers.Proxy, to string) func() error {
	return func() error {
		for _, do := range []func() error{cut, kill, promote} {
			if err := do(); err != nil {
				return err
			}
		}
		front.Retarget(to)
		front.Reset()
		return nil
	}
}
