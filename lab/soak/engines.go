package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"leasehold/lab/servers"
	"leasehold/torture"
)

// site is where a trial is made: an engine on servers of its own.
type site struct {
	fault   string // the only one that comes to it; empty: all
	url     string
	faults  []torture.Nemesis // that come to the servers
	closers []func() error
}

// without is whether what a fault needs would only cost time: another one comes.
func (s *site) without(fault string) bool { return s.fault != "" && s.fault != fault }

// closing has f called when the trial is over.
func (s *site) closing(f func() error) { s.closers = append(s.closers, f) }

func (s *site) close() (err error) {
	for _, f := range slices.Backward(s.closers) {
		err = errors.Join(err, f())
	}
	return err
}

// deployment is an engine, and how its site is made.
type deployment struct {
	engine string
	start  func(*site) error
}

func deployments() []deployment {
	return []deployment{
		{"filelock", directory},
		{"queuelock", redis("redis://%s")},
		{"queuelock-sentinel", sentinel},
		{"queuelock-cluster", cluster},
		{"plainlock", redis("redis://%s?layout=plain")},
		{"redissonlock", redis("redisson://%s?kind=fenced")},
		{"redlock", redlock},
		{"zklock", zookeeper},
		{"etcdlock", etcd},
		{"pglock", postgres},
		{"mysqllock", mariadb},
	}
}

func names(all []deployment) string {
	var text []string
	for _, d := range all {
		text = append(text, d.engine)
	}
	return strings.Join(text, ", ")
}

func directory(s *site) error {
	dir, err := os.MkdirTemp("", "lh-soak")
	s.closing(func() error { return os.RemoveAll(dir) })
	s.url = "dir://" + dir
	return err
}

// clock is one for a server of the site, or nil. env is what the server is started with.
func (s *site) clock() (c *servers.Clock, env []string) {
	if s.without(clockFault) {
		return nil, nil
	}
	c, err := servers.NewClock()
	if err != nil {
		s.faults = append(s.faults, missing{clockFault, err})
		return nil, nil
	}
	s.closing(c.Close)
	return c, c.Env()
}

// sets has the clock of a server set, which now asks.
func (s *site) sets(c *servers.Clock, now func() (int64, error)) {
	if c != nil {
		s.faults = append(s.faults, shifted(c, now))
	}
}

// disk is one for the servers of the site, or nil.
func (s *site) disk() *servers.Disk {
	if s.without(powerFault) {
		return nil
	}
	d, err := servers.NewDisk()
	if err != nil {
		s.faults = append(s.faults, missing{powerFault, err})
		return nil
	}
	s.closing(d.Close)
	return d
}

// cuts has the power of that disk cut. The servers on it are set up.
func cuts[M machine](s *site, d *servers.Disk, all []M, start func(M) error) error {
	if d == nil {
		return nil
	}
	s.faults = append(s.faults, powerCut(d, all, start))
	return d.Sync()
}

// fewConnections is a limit that can be reached, and leaves room for the clients.
const fewConnections = "200"

// server is a Redis that syncs what it answers, and whose clock is set.
func (s *site) server(d *servers.Disk) (*servers.RedisServer, error) {
	clock, env := s.clock()
	r, err := servers.StartRedis(&servers.RedisOptions{Durable: true, Env: env, Disk: d, Args: []string{"--maxclients", fewConnections}})
	if err != nil {
		return nil, err
	}
	s.closing(r.Close)
	s.sets(clock, func() (int64, error) {
		v, err := r.Do("TIME")
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(v.([]any)[0].(string), 10, 64)
	})
	return r, nil
}

func restartRedis(r *servers.RedisServer) error { return r.Restart(false) }

// repairRedis starts a Redis after a power cut, as a person would: see [servers.RepairAOF].
func repairRedis(r *servers.RedisServer) error { return r.RestartWith(servers.RepairAOF) }

func redis(form string) func(*site) error {
	return func(s *site) error {
		d := s.disk()
		r, err := s.server(d)
		if err != nil {
			return err
		}
		all := []*servers.RedisServer{r}
		s.url = fmt.Sprintf(form, r.Addr)
		s.faults = append(s.faults, stopped(all), restarted(all, restartRedis))
		return cuts(s, d, all, repairRedis)
	}
}

// warmUp is for how long a master that has just started does not vote, and the longest TTL.
const warmUp = 4 * time.Second

func redlock(s *site) error {
	d := s.disk()
	var all []*servers.RedisServer
	var addrs []string
	for range 3 {
		r, err := s.server(d)
		if err != nil {
			return err
		}
		all, addrs = append(all, r), append(addrs, r.Addr)
	}
	time.Sleep(warmUp)
	s.url = fmt.Sprintf("redlock://%s?max-ttl=%v", strings.Join(addrs, ","), warmUp)
	s.faults = append(s.faults, stopped(all), restarted(all, restartRedis))
	return cuts(s, d, all, repairRedis)
}

// healing is how long servers may take to be as they were.
const healing = time.Minute

func sentinel(s *site) error {
	set, err := servers.StartSentinel(&servers.RedisOptions{Durable: true})
	if err != nil {
		return err
	}
	s.closing(set.Close)
	s.url = "redis-sentinel://" + strings.Join(set.Addrs(), ",") + "/" + set.Master
	s.faults = []torture.Nemesis{failover(func(*rand.Rand) (*servers.RedisServer, error) { return set.Primary() }, restartRedis,
		func() error { return set.Healthy(healing) })}
	return nil
}

func cluster(s *site) error {
	set, err := servers.StartCluster(&servers.RedisOptions{Durable: true})
	if err != nil {
		return err
	}
	s.closing(set.Close)
	s.url = "redis-cluster://" + strings.Join(set.Addrs(), ",")
	s.faults = []torture.Nemesis{failover(func(rng *rand.Rand) (*servers.RedisServer, error) {
		for _, i := range rng.Perm(len(set.Nodes)) {
			if role, err := set.Nodes[i].Role(); err != nil || role == "master" {
				return set.Nodes[i], err
			}
		}
		return nil, errors.New("no node is a primary")
	}, restartRedis, func() error { return set.Healthy(healing) })}
	return nil
}

func zookeeper(s *site) error {
	d := s.disk()
	set, err := servers.StartEnsemble(&servers.ZooKeeperOptions{Disk: d}, make([]*servers.Host, 3))
	if err != nil {
		return err
	}
	s.closing(set.Close)
	again := func(m *servers.ZooKeeperServer) error { return m.Restart(false) }
	s.url = "zookeeper://" + strings.Join(set.Addrs(), ",")
	s.faults = append(s.faults, stopped(set.Servers),
		failover(func(*rand.Rand) (*servers.ZooKeeperServer, error) { return set.Leader() }, again, func() error { return nil }))
	return cuts(s, d, set.Servers, again)
}

func etcd(s *site) error {
	d := s.disk()
	set, err := servers.StartEtcdCluster(&servers.EtcdOptions{Disk: d})
	if err != nil {
		return err
	}
	s.closing(set.Close)
	again := (*servers.EtcdServer).Restart
	s.url = "etcd://" + strings.Join(set.Addrs(), ",")
	s.faults = append(s.faults, stopped(set.Members),
		failover(func(*rand.Rand) (*servers.EtcdServer, error) { return set.Leader() }, again, func() error { return set.Healthy(healing) }))
	return cuts(s, d, set.Members, again)
}

func postgres(s *site) error {
	d := s.disk()
	clock, env := s.clock()
	p, err := servers.StartPostgres(&servers.PostgresOptions{Env: env, Disk: d})
	if err != nil {
		return err
	}
	s.closing(p.Close)
	all, again := []*servers.PostgresServer{p}, (*servers.PostgresServer).Restart
	s.url = p.URL("", "")
	s.faults = append(s.faults, restarted(all, again)) // a stop would spare its backends, which are processes of their own
	s.sets(clock, seconds(func() (string, error) { return p.Query("SELECT extract(epoch FROM clock_timestamp())::bigint") }))
	return cuts(s, d, all, again)
}

func mariadb(s *site) error {
	d := s.disk()
	clock, env := s.clock()
	m, err := servers.StartMariaDB(&servers.MariaDBOptions{Env: env, Disk: d})
	if err != nil {
		return err
	}
	s.closing(m.Close)
	all, again := []*servers.MariaDBServer{m}, (*servers.MariaDBServer).Restart
	s.url = m.URL("", "")
	s.faults = append(s.faults, stopped(all), restarted(all, again))
	s.sets(clock, seconds(func() (string, error) { return m.Query("SELECT FLOOR(UNIX_TIMESTAMP(SYSDATE()))") }))
	return cuts(s, d, all, again)
}

// seconds is a query's answer as a number.
func seconds(query func() (string, error)) func() (int64, error) {
	return func() (int64, error) {
		text, err := query()
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(text, 10, 64)
	}
}
