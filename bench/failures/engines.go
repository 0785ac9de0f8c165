package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"leasehold/internal/servers"
)

// The faults, as the document names them.
const (
	holderKilled  = "the holder is killed"
	holderStopped = "the holder is stopped"
	holderCut     = "the holder is cut off"
	engineStopped = "the engine is stopped"
	restartedKept = "restarted, its memory kept"
	restartedLost = "restarted, its memory lost"
	failedOver    = "failed over"
	clockForward  = "its clock steps forward"
	clockBack     = "its clock steps back"
)

// step is how far a clock steps.
const step = time.Minute

func faults() []string {
	return []string{holderKilled, holderStopped, holderCut, engineStopped, restartedKept, restartedLost, failedOver, clockForward, clockBack}
}

// deployment is an engine as it is run, with the faults that it cannot have.
type deployment struct {
	engine  string
	about   string
	fencing bool
	cannot  map[string]string
	allowed map[string]time.Duration // by fault: how long two may hold
	start   func(s *stage, fault string) world
}

// A holder learns at its next renewal, a third of its TTL away, that the engine has
// forgotten it. A second is for a machine with more to do.
const (
	renewal = ttl/3 + slack
	slack   = time.Second
)

// trials is every engine with every fault, in the order of the document.
func trials(match *regexp.Regexp) (rows []*row) {
	for _, d := range deployments() {
		for _, fault := range faults() {
			if !match.MatchString(d.engine + ", " + fault) {
				continue
			}
			rows = append(rows, &row{
				engine: d.engine, fault: fault, why: d.cannot[fault], start: d.start,
				allowed: d.allowed[fault], fencing: d.fencing,
			})
		}
	}
	return rows
}

func deployments() []deployment {
	const (
		noServer   = "there is no server"
		nothing    = "it keeps everything on disk"
		oneServer  = "there is one server"
		isFailover = "that is a failover: see there"
		itself     = "its clients find the servers by themselves, past what would cut them off here; the engine's tests have it, in network namespaces"
	)
	return []deployment{
		{
			engine: "filelock", about: "a directory of one machine", fencing: true,
			cannot: map[string]string{
				holderCut: noServer, engineStopped: noServer, restartedKept: noServer, failedOver: noServer,
				restartedLost: noServer + "; what deleting its directory does is in [engines.md](engines.md#filelock)",
				clockForward:  "no wall clock is asked when a lease ends", clockBack: "no wall clock is asked when a lease ends",
			},
			start: directory,
		},
		{
			engine: "redislock, one server", about: "kept: `appendfsync always`; lost: nothing on disk", fencing: true,
			cannot:  map[string]string{failedOver: oneServer},
			allowed: map[string]time.Duration{restartedLost: renewal, clockForward: renewal},
			start:   redis("redis://%s"),
		},
		{
			engine: "redislock, Sentinel", about: "a primary, a replica, three Sentinels", fencing: true,
			cannot: map[string]string{
				holderCut: itself, engineStopped: isFailover, restartedKept: isFailover, restartedLost: isFailover,
				clockForward: "as with one server", clockBack: "as with one server",
			},
			allowed: map[string]time.Duration{failedOver: renewal},
			start:   sentinel,
		},
		{
			engine: "redislock, Cluster", about: "three primaries, three replicas", fencing: true,
			cannot: map[string]string{
				holderCut: itself, engineStopped: isFailover, restartedKept: isFailover, restartedLost: isFailover,
				clockForward: "as with one server", clockBack: "as with one server",
			},
			allowed: map[string]time.Duration{failedOver: renewal},
			start:   cluster,
		},
		{
			engine: "plainlock", about: "redislock's `layout=plain`, the keys of redsync", fencing: true,
			cannot:  map[string]string{failedOver: oneServer},
			allowed: map[string]time.Duration{restartedLost: renewal, clockForward: renewal},
			start:   redis("redis://%s?layout=plain"),
		},
		{
			engine: "redissonlock", about: "`kind=fenced`", fencing: true,
			cannot:  map[string]string{failedOver: oneServer},
			allowed: map[string]time.Duration{restartedLost: renewal, clockForward: renewal},
			start:   redis("redisson://%s?kind=fenced"),
		},
		{
			engine: "redlock", about: "five masters, `max-ttl=4s`; stopped and restarted: all five; memory kept: `appendfsync always`; clock: of one", fencing: true,
			cannot: map[string]string{failedOver: "nothing takes over from a master"},
			start:  redlock,
		},
		{
			engine: "zklock", about: "an ensemble of three; stopped and restarted: all three; failed over: the leader killed", fencing: true,
			cannot: map[string]string{
				restartedLost: nothing,
				clockForward:  "no wall clock is asked when a session ends", clockBack: "no wall clock is asked when a session ends",
			},
			start: zookeeper,
		},
		{
			engine: "etcdlock", about: "three members; stopped and restarted: all three; failed over: the leader killed", fencing: true,
			cannot: map[string]string{
				restartedLost: nothing,
				clockForward:  "no wall clock is asked when a lease ends", clockBack: "no wall clock is asked when a lease ends",
			},
			start: etcd,
		},
		{
			engine: "pglock", about: "stopped: nothing passes between it and its clients; failed over: to a replica that follows asynchronously", fencing: true,
			cannot:  map[string]string{restartedLost: nothing},
			allowed: map[string]time.Duration{failedOver: renewal, clockForward: renewal},
			start:   postgres,
		},
		{
			engine: "mysqllock", about: "MariaDB", fencing: true,
			cannot: map[string]string{
				restartedLost: nothing,
			},
			allowed: map[string]time.Duration{failedOver: renewal, clockForward: renewal},
			start:   mariadb,
		},
	}
}

func directory(s *stage, _ string) world {
	dir, err := os.MkdirTemp("", "lh-failures")
	s.must(err)
	s.Cleanup(func() { os.RemoveAll(dir) })
	url := "dir://" + filepath.Join(dir, "locks")
	return world{holder: url, next: url}
}

// proxied puts a proxy before each address: the way of the holder.
func proxied(s *stage, addrs ...string) (through []string, cut func(on bool)) {
	var proxies []*servers.Proxy
	for _, addr := range addrs {
		p := servers.ProxyTo(s, addr)
		proxies = append(proxies, p)
		through = append(through, p.Addr)
	}
	return through, func(on bool) {
		for _, p := range proxies {
			p.BlackHole(on)
		}
	}
}

// cutting is a world in which the holder can be cut off.
func cutting(s *stage, form string, addrs ...string) (w world, cut func() error, mend func() error) {
	through, hole := proxied(s, addrs...)
	w = world{holder: fmt.Sprintf(form, strings.Join(through, ",")), next: fmt.Sprintf(form, strings.Join(addrs, ","))}
	return w, func() error { hole(true); return nil }, func() error { hole(false); return nil }
}

// clocked is a clock for the faults that need one, else nil.
func clocked(s *stage, fault string) (c *servers.Clock, env []string) {
	if fault != clockForward && fault != clockBack {
		return nil, nil
	}
	c = servers.ShiftedClock(s)
	return c, c.Env()
}

// stepped moves a clock, and sees that the server goes by it: one that keeps the
// machine's would look as if a step did nothing.
func stepped(c *servers.Clock, fault string, seconds func() (string, error)) error {
	by := step
	if fault == clockBack {
		by = -step
	}
	if err := c.Set(by); err != nil {
		return err
	}
	text, err := seconds()
	if err != nil {
		return err
	}
	sec, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return err
	}
	if wrong := time.Until(time.Unix(sec, 0).Add(-by)); wrong.Abs() > step/2 {
		return fmt.Errorf("the server's clock is %v from where it was put", wrong)
	}
	return nil
}

func redisTime(r *servers.RedisServer) func() (string, error) {
	return func() (string, error) {
		now, err := r.Do("TIME")
		if err != nil {
			return "", err
		}
		return fmt.Sprint(now.([]any)[0]), nil
	}
}

// each does the same to all, at the same moment.
func each[T any](all []T, do func(T) error) error {
	errs := make(chan error)
	for _, one := range all {
		go func() { errs <- do(one) }()
	}
	var first error
	for range all {
		if err := <-errs; err != nil {
			first = err
		}
	}
	return first
}

func redis(form string) func(s *stage, fault string) world {
	return func(s *stage, fault string) world {
		clock, env := clocked(s, fault)
		r := servers.Redis(s, &servers.RedisOptions{Durable: fault == restartedKept, Env: env})
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

func zookeeper(s *stage, fault string) world {
	e := servers.ZooKeeperEnsemble(s, nil)
	w, cut, mend := cutting(s, "zookeeper://%s?session="+(2*ttl).String(), e.Addrs()...)
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
	}
	return w
}

func etcd(s *stage, fault string) world {
	set := servers.EtcdCluster(s, nil)
	w, cut, mend := cutting(s, "etcd://%s?ttl="+ttl.String(), set.Addrs()...)
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
	}
	return w
}

func postgres(s *stage, fault string) world {
	clock, env := clocked(s, fault)
	p := servers.Postgres(s, &servers.PostgresOptions{Env: env})
	addrs := []string{p.Addr}
	var replica *servers.PostgresServer
	form := "postgres://postgres@%s/postgres?sslmode=disable"
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
	case restartedKept:
		w.do = p.Restart
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

// mariadbFailover has clients come to one address, behind which the replica takes the
// primary's place.
func mariadbFailover(s *stage) world {
	primary := servers.MariaDBPrimary(s)
	replica, front := primary.Replica(s, primary.Addr), servers.ProxyTo(s, primary.Addr)
	w, _, _ := cutting(s, "mysql://root@%s/test?failover", front.Addr)
	w.do = func() error {
		if err := primary.Kill(); err != nil {
			return err
		}
		if err := replica.Promote(); err != nil {
			return err
		}
		front.Retarget(replica.Addr)
		return nil
	}
	return w
}

func mariadb(s *stage, fault string) world {
	clock, env := clocked(s, fault)
	if fault == failedOver {
		return mariadbFailover(s)
	}
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
