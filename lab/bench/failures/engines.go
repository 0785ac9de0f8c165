package main

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"leasehold/lab/servers"
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
	olderCopy     = "an older copy is put back"                     // only of engines that say so: see deployment.copies
	powerCut      = "its power is cut, and the holder is cut off"   // the same: see deployment.disk
	lagged        = "failed over behind, and the holder is cut off" // only of those that have no other: see deployment.only

	// Only of a service: see deployment.served.
	serverKilled  = "the server that it uses is killed"
	serverStopped = "the server that it uses is stopped"
	engineAway    = "the engine is away for half a TTL"
)

// step is how far a clock steps.
const step = time.Minute

func faults() []string {
	return []string{holderKilled, holderStopped, holderCut, engineStopped, restartedKept, restartedLost, failedOver, clockForward, clockBack, olderCopy, powerCut, lagged, serverKilled, serverStopped, engineAway}
}

// deployment is an engine as it is run, with the faults that it cannot have.
type deployment struct {
	engine  string
	about   string
	fencing bool
	cannot  map[string]string
	allowed map[string]time.Duration // by fault: how long two may hold
	falls   map[string]bool          // by fault: tokens may be lower after it
	copies  bool                     // olderCopy: of before the locks were taken
	disk    bool                     // powerCut: the disk keeps what was synced, and the locks were taken after that
	served  bool                     // the faults of a service too
	only    []string                 // the faults that it has; none: all
	shows   bool                     // two hold after each of its faults, or the trial is too weak
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
			if !match.MatchString(d.engine+", "+fault) || !d.has(fault) {
				continue
			}
			r := &row{
				engine: d.engine, fault: fault, why: d.cannot[fault], start: d.start,
				allowed: d.allowed[fault], fencing: d.fencing, falls: d.falls[fault], shows: d.shows,
			}
			switch fault {
			case lagged:
				r.lease = longLease
			case serverStopped:
				r.lease, r.away = serverLease, 3*serverLease/2
			case engineAway:
				r.away = ttl / 2
			case powerCut:
				r.lease = powerLease
				if err := servers.CanMakeDisk(); err != nil {
					r.why = err.Error()
				}
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// longLease is that of a holder which is cut off from an engine that takes a while to be back. It
// learns of nothing until its lease ends.
const longLease = 20 * time.Second

// powerLease is the same where all servers are started again, which takes ZooKeeper half a minute
// on a machine with much to do.
const powerLease = time.Minute

// has is whether a fault is one of those that come to d, or that d says it cannot have.
func (d *deployment) has(fault string) bool {
	switch {
	case d.only != nil:
		return slices.Contains(d.only, fault)
	case fault == olderCopy:
		return d.copies
	case fault == powerCut:
		return d.disk
	case fault == serverKilled, fault == serverStopped, fault == engineAway:
		return d.served
	}
	return fault != lagged
}

func deployments() []deployment {
	const (
		behind     = "this is a fault of the engine behind the service: see [queuelock](#queuelock-one-server)"
		noServer   = "there is no server"
		nothing    = "it keeps everything on disk"
		oneServer  = "there is one server"
		isFailover = "it causes a failover: see there"
		itself     = "its clients find the servers by themselves and go round the proxy that cuts them off here; the engine's tests do it in network namespaces"
	)
	return []deployment{
		{
			engine: "filelock", about: "a directory of one machine", fencing: true,
			cannot: map[string]string{
				holderCut: noServer, engineStopped: noServer, restartedKept: noServer, failedOver: noServer,
				restartedLost: noServer + "; the effect of deleting its directory is in [engines.md](engines.md#filelock)",
				clockForward:  "no wall clock decides when a lease ends", clockBack: "no wall clock decides when a lease ends",
			},
			start: directory,
		},
		{
			engine: "queuelock, one server", about: "memory kept: `appendfsync always`; memory lost: nothing on disk", fencing: true,
			cannot:  map[string]string{failedOver: oneServer},
			allowed: map[string]time.Duration{restartedLost: renewal, clockForward: renewal},
			start:   redis("redis://%s", 0),
		},
		{
			engine: "queuelock, `restart-delay=4s`", about: "the same, but a restarted server that does not sync every write grants nothing for 4 s", fencing: true,
			cannot:  map[string]string{failedOver: oneServer},
			allowed: map[string]time.Duration{clockForward: renewal},
			start:   redis("redis://%s?restart-delay=4s", 4*time.Second),
		},
		{
			engine: "queuelock, Sentinel", about: "a primary, a replica, three Sentinels", fencing: true,
			cannot: map[string]string{
				holderCut: itself, engineStopped: isFailover, restartedKept: isFailover, restartedLost: isFailover,
				clockForward: "as with one server", clockBack: "as with one server",
			},
			allowed: map[string]time.Duration{failedOver: renewal},
			start:   sentinel,
		},
		{
			engine: "queuelock, Cluster", about: "three primaries, three replicas", fencing: true,
			cannot: map[string]string{
				holderCut: itself, engineStopped: isFailover, restartedKept: isFailover, restartedLost: isFailover,
				clockForward: "as with one server", clockBack: "as with one server",
			},
			allowed: map[string]time.Duration{failedOver: renewal},
			start:   cluster,
		},
		{
			engine: "plainlock", about: "the URL of queuelock with `layout=plain`: the keys of redsync", fencing: true,
			cannot:  map[string]string{failedOver: oneServer},
			allowed: map[string]time.Duration{restartedLost: renewal, clockForward: renewal},
			start:   redis("redis://%s?layout=plain", 0),
		},
		{
			engine: "redissonlock", about: "`kind=fenced`", fencing: true,
			cannot:  map[string]string{failedOver: oneServer},
			allowed: map[string]time.Duration{restartedLost: renewal, clockForward: renewal},
			start:   redis("redisson://%s?kind=fenced", 0),
		},
		{
			engine: "redlock", about: "five masters, `max-ttl=4s`; stopped and restarted: all five; memory kept: `appendfsync always`; clock: one master's", fencing: true,
			cannot: map[string]string{failedOver: "no server takes over from a master"},
			start:  redlock,
		},
		{
			engine: "queuelock, one address", about: "`?failover`: a primary and a replica behind one address, as a managed service has them; failed over: to the replica, which has not received the locks", fencing: true,
			only: []string{lagged}, allowed: map[string]time.Duration{lagged: longLease}, shows: true,
			start: managedRedis,
		},
		{
			engine: "zklock", about: "an ensemble of three; stopped and restarted: all three; failed over: the leader killed; the copy: taken before the locks were, so tokens may be lower after it", fencing: true, copies: true, disk: true,
			allowed: map[string]time.Duration{olderCopy: renewal},
			falls:   map[string]bool{olderCopy: true},
			cannot: map[string]string{
				restartedLost: nothing,
				clockForward:  "no wall clock decides when a session ends", clockBack: "no wall clock decides when a session ends",
			},
			start: zookeeper(),
		},
		{
			engine: "zklock, `forceSync=no`", about: "three servers that answer before their disks have what they wrote, against the assumption; all lose the power", fencing: true,
			only: []string{powerCut}, allowed: map[string]time.Duration{powerCut: powerLease}, falls: map[string]bool{powerCut: true}, shows: true,
			start: zookeeper(servers.NoForceSync),
		},
		{
			engine: "etcdlock", about: "three members; stopped and restarted: all three; failed over: the leader killed; the copy: taken before the locks were, and put back without etcdutl's `--bump-revision`", fencing: true, copies: true, disk: true,
			allowed: map[string]time.Duration{olderCopy: renewal},
			cannot: map[string]string{
				restartedLost: nothing,
				clockForward:  "no wall clock decides when a lease ends", clockBack: "no wall clock decides when a lease ends",
			},
			start: etcd(),
		},
		{
			engine: "etcdlock, `--unsafe-no-fsync`", about: "three members that answer before their disks have what they wrote, against the assumption; all lose the power", fencing: true,
			only: []string{powerCut}, allowed: map[string]time.Duration{powerCut: powerLease}, falls: map[string]bool{powerCut: true}, shows: true,
			start: etcd("--unsafe-no-fsync"),
		},
		{
			engine: "pglock", about: "stopped: no traffic between it and its clients; failed over: to a replica that follows asynchronously; the copy: from before the locks were taken (a base backup and the archived log)", fencing: true, copies: true,
			cannot:  map[string]string{restartedLost: nothing},
			allowed: map[string]time.Duration{failedOver: renewal, clockForward: renewal, olderCopy: renewal},
			start:   postgres(""),
		},
		{
			engine: "pglock, `unlogged`", about: "tables in memory, so a crash forgets every lease and nothing is granted for a TTL; failed over: to a replica that follows asynchronously, whose tables are empty", fencing: true,
			only: []string{restartedLost, failedOver}, start: postgres("&unlogged=" + ttl.String()),
		},
		{
			engine: "pglock, a replica that lags", about: "failed over: to a replica that follows asynchronously, and has not received the locks", fencing: true,
			only: []string{lagged}, allowed: map[string]time.Duration{lagged: longLease}, shows: true,
			start: laggingPostgres,
		},
		{
			engine: "mysqllock", about: "MariaDB; failed over: to a replica that follows asynchronously, behind one address", fencing: true,
			cannot:  map[string]string{restartedLost: nothing},
			allowed: map[string]time.Duration{failedOver: renewal, clockForward: renewal},
			start:   mariadb,
		},
		{
			engine: "mysqllock, semi-synchronous", about: "MariaDB whose commits wait until its replica has received them; failed over: to that replica, behind one address", fencing: true,
			only: []string{failedOver}, start: semiSynced,
		},
		{
			engine: "mysqllock, a replica that lags", about: "MariaDB; failed over: to a replica that follows asynchronously, behind one address, and has not received the locks", fencing: true,
			only: []string{lagged}, allowed: map[string]time.Duration{lagged: longLease}, shows: true,
			start: laggingMariaDB,
		},
		{
			engine: "httplock, two servers", about: fmt.Sprintf("two servers of one service (`leasehold serve`) over one Redis, and the addresses of both in the URL; where a server is stopped, that is for %v, and the TTL is %v", 3*serverLease/2, serverLease), fencing: true, served: true,
			cannot: map[string]string{
				restartedKept: behind, restartedLost: behind, failedOver: behind, clockForward: behind, clockBack: behind,
			},
			start: replicas,
		},
	}
}
