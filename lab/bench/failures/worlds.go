package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"leasehold/lab/servers"
)

// Each of these starts an engine, and says how the fault comes over it.

func directory(s *stage, _ string) world {
	dir, err := os.MkdirTemp("", "lh-failures")
	s.must(err)
	s.Cleanup(func() { os.RemoveAll(dir) })
	url := "dir://" + filepath.Join(dir, "locks")
	return world{holder: url, next: url}
}

// redis is one server, used when it has run for that long.
func redis(form string, after time.Duration) func(s *stage, fault string) world {
	return func(s *stage, fault string) world {
		clock, env := clocked(s, fault)
		r := servers.Redis(s, &servers.RedisOptions{Durable: fault == restartedKept, Env: env})
		time.Sleep(after)
		w, cut, mend := cutting(s, form, r.Addr)
		switch fault {
		case holderCut:
			w.do, w.heal = cut, mend
		case engineStopped:
			w.do, w.heal = r.Stop, r.Cont
		case restartedKept, restartedLost:
			w.do = func() error { return r.Restart(fault == restartedLost) }
		default:
			w.do = func() error { return stepped(clock, fault, redisTime(r)) }
		}
		return w
	}
}

func sentinel(s *stage, _ string) world {
	set := servers.Sentinel(s, nil)
	s.must(set.Healthy(30 * time.Second))
	url := "redis-sentinel://" + strings.Join(set.Addrs(), ",") + "/" + set.Master
	return world{holder: url, next: url, do: func() error {
		primary, err := set.Primary()
		if err != nil {
			return err
		}
		return primary.Kill()
	}}
}

func cluster(s *stage, _ string) world {
	set := servers.RedisCluster(s, nil)
	s.must(set.Healthy(60 * time.Second))
	url := "redis-cluster://" + strings.Join(set.Addrs(), ",")
	var keys string
	return world{
		holder: url, next: url, names: 4 * samples,
		do: func() error { return set.Nodes[0].Kill() },
		hit: func(name string) bool {
			if keys == "" {
				all, err := set.Nodes[0].Do("KEYS", "*")
				s.must(err)
				keys = fmt.Sprintln(all)
			}
			return regexp.MustCompile(regexp.QuoteMeta(name) + `\b`).MatchString(keys)
		},
	}
}

func redlock(s *stage, fault string) world {
	clock, env := clocked(s, fault)
	var (
		masters []*servers.RedisServer
		addrs   []string
	)
	for i := range 5 {
		o := &servers.RedisOptions{Durable: fault == restartedKept}
		if i == 0 {
			o.Env = env
		}
		m := servers.Redis(s, o)
		masters = append(masters, m)
		addrs = append(addrs, m.Addr)
	}
	time.Sleep(4 * time.Second) // masters that started just now do not vote
	w, cut, mend := cutting(s, "redlock://%s?max-ttl=4s", addrs...)
	switch fault {
	case holderCut:
		w.do, w.heal = cut, mend
	case engineStopped:
		w.do = func() error { return each(masters, (*servers.RedisServer).Stop) }
		w.heal = func() error { return each(masters, (*servers.RedisServer).Cont) }
	case restartedKept, restartedLost:
		w.do = func() error {
			return each(masters, func(m *servers.RedisServer) error { return m.Restart(fault == restartedLost) })
		}
	default:
		w.do = func() error { return stepped(clock, fault, redisTime(masters[0])) }
	}
	return w
}

func zookeeper(flags ...string) func(*stage, string) world {
	return func(s *stage, fault string) world { return ensemble(s, fault, flags) }
}

func ensemble(s *stage, fault string, flags []string) world {
	disk := diskFor(s, fault)
	o := &servers.ZooKeeperOptions{Disk: disk, Flags: flags}
	if fault == powerCut {
		o.Tick = powerLease / 10 // a session lasts 20 ticks at most, and a lease half of that
	}
	e := servers.ZooKeeperEnsemble(s, o)
	w, cut, mend := cutting(s, "zookeeper://%s", e.Addrs()...)
	switch fault {
	case holderCut:
		w.do, w.heal = cut, mend
	case engineStopped:
		w.do = func() error { return each(e.Servers, (*servers.ZooKeeperServer).Stop) }
		w.heal = func() error { return each(e.Servers, (*servers.ZooKeeperServer).Cont) }
	case restartedKept:
		w.do = func() error {
			return each(e.Servers, func(m *servers.ZooKeeperServer) error { return m.Restart(false) })
		}
	case failedOver:
		w.do = func() error {
			leader, err := e.Leader()
			if err != nil {
				return err
			}
			return leader.Kill()
		}
	case olderCopy:
		copies, err := e.Backup()
		s.must(err)
		w.do = func() error { return e.Restore(copies) }
	case powerCut:
		w.do = powerless(s, disk, e.Servers, cut, func(m *servers.ZooKeeperServer) error { return m.Restart(false) })
	}
	return w
}

func etcd(args ...string) func(*stage, string) world {
	return func(s *stage, fault string) world { return members(s, fault, args) }
}

func members(s *stage, fault string, args []string) world {
	disk := diskFor(s, fault)
	set := servers.EtcdCluster(s, &servers.EtcdOptions{Disk: disk, Args: args})
	w, cut, mend := cutting(s, "etcd://%s", set.Addrs()...)
	switch fault {
	case holderCut:
		w.do, w.heal = cut, mend
	case engineStopped:
		w.do = func() error { return each(set.Members, (*servers.EtcdServer).Stop) }
		w.heal = func() error { return each(set.Members, (*servers.EtcdServer).Cont) }
	case restartedKept:
		w.do = func() error { return each(set.Members, (*servers.EtcdServer).Restart) }
	case failedOver:
		w.do = func() error {
			leader, err := set.Leader()
			if err != nil {
				return err
			}
			return leader.Kill()
		}
	case olderCopy:
		copies, err := set.Backup()
		s.must(err)
		w.do = func() error { return set.Restore(copies) }
	case powerCut:
		w.do = powerless(s, disk, set.Members, cut, (*servers.EtcdServer).Restart)
	}
	return w
}

// postgres is a primary, with a replica where it fails over. parameters are of the URL.
func postgres(parameters string) func(*stage, string) world {
	return func(s *stage, fault string) world {
		clock, env := clocked(s, fault)
		p := servers.Postgres(s, &servers.PostgresOptions{Env: env, Archive: fault == olderCopy})
		addrs := []string{p.Addr}
		var replica *servers.PostgresServer
		form := "postgres://postgres@%s/postgres?sslmode=disable" + parameters
		if fault == failedOver {
			replica = p.Replica(s, nil)
			addrs = append(addrs, replica.Addr)
			form += "&target_session_attrs=read-write"
		}
		w, cut, mend := cutting(s, form, addrs...)
		switch fault {
		case holderCut:
			w.do, w.heal = cut, mend
		case engineStopped:
			// Its backends are processes of their own, which a stop of the server spares.
			through, hole := proxied(s, p.Addr)
			w.next = fmt.Sprintf(form, through[0])
			w.do = func() error { hole(true); return cut() }
			w.heal = func() error { hole(false); return mend() }
		case restartedKept, restartedLost:
			w.do = p.Restart
		case olderCopy:
			installed(s, p.URL("", ""))
			s.must(p.Backup())
			w.do = p.Restore
		case failedOver:
			w.do = func() error {
				if err := p.Kill(); err != nil {
					return err
				}
				return replica.Promote()
			}
		default:
			w.do = func() error {
				return stepped(clock, fault, func() (string, error) {
					return p.Query("SELECT extract(epoch FROM clock_timestamp())::bigint")
				})
			}
		}
		return w
	}
}

func mariadb(s *stage, fault string) world {
	if fault == failedOver {
		return replicatedMariaDB(s)
	}
	clock, env := clocked(s, fault)
	m := servers.MariaDB(s, &servers.MariaDBOptions{Env: env})
	w, cut, mend := cutting(s, "mysql://root@%s/test", m.Addr)
	switch fault {
	case holderCut:
		w.do, w.heal = cut, mend
	case engineStopped:
		w.do, w.heal = m.Stop, m.Cont
	case restartedKept:
		w.do = m.Restart
	default:
		w.do = func() error {
			return stepped(clock, fault, func() (string, error) { return m.Query("SELECT FLOOR(UNIX_TIMESTAMP(SYSDATE()))") })
		}
	}
	return w
}

// replicatedMariaDB is a primary and its replica behind one address, as a proxy or a
// name that is moved has it.
func replicatedMariaDB(s *stage) world {
	primary := servers.MariaDBPrimary(s)
	replica := primary.Replica(s, primary.Addr)
	front := servers.ProxyTo(s, primary.Addr)
	url := "mysql://root@" + front.Addr + "/test?failover"
	return world{holder: url, next: url, do: func() error {
		if err := primary.Kill(); err != nil {
			return err
		}
		if err := replica.Promote(); err != nil {
			return err
		}
		front.Retarget(replica.Addr)
		front.Reset()
		return nil
	}}
}
