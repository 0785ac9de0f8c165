package demo

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// redis starts a server for this run alone.
func (s *stage) redis(more ...string) *daemon {
	if s.err != nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "leasehold-demo")
	if err != nil {
		s.fail(err)
		return nil
	}
	s.end = append(s.end, func() { os.RemoveAll(dir) })
	d, err := startRedis(s.ctx, dir, more...)
	if err != nil {
		s.fail(err)
		return nil
	}
	s.end = append(s.end, d.kill)
	return d
}

// masterRestarts: two of five masters are away when A locks. They come back, and one of
// those that A has is restarted, empty. Then B locks.
func masterRestarts(s *stage) finding {
	a, b := s.spawn("A"), s.spawn("B")
	var masters []*daemon
	var addrs []string
	for range 5 {
		d := s.redis()
		if s.err != nil {
			return finding{}
		}
		masters, addrs = append(masters, d), append(addrs, d.addr)
	}
	masters[3].kill()
	masters[4].kill()
	list := strings.Join(addrs, ",")
	o := order{Server: list, Expiry: 10 * time.Second}
	if s.ours() {
		// No master votes within max-ttl after its start.
		o = order{Server: "redlock://" + list + "?max-ttl=1s&prefix=" + s.on.prefix, Expiry: time.Second}
	}
	a.begin(o)
	a.must(a.lock(item, patience))
	for _, d := range []*daemon{masters[3], masters[4], masters[2]} {
		if s.err == nil {
			s.fail(d.restart(s.ctx))
		}
	}
	a.say(holds, "masters 4 and 5, which were away, are back; master 3 was restarted, empty")
	b.begin(o)
	b.ask(item, patience)
	if s.ours() && a.do("loss", item, patience) == nil {
		a.believes(item)
	}
	held := b.got(patience)
	b.must(held)
	if a.believes(item) {
		return finding{true, "A and B each had a majority: 1, 2, 3 and 3, 4, 5"}
	}
	b.unlock(item)
	return finding{seen: "a restarted master had no vote: A was told that it lost its majority, and B held after that"}
}

// failover: the replica does not have the lock of A when the primary dies, and is
// promoted. Then B locks.
func failover(s *stage) finding {
	a, b := s.spawn("A"), s.spawn("B")
	primary := s.redis()
	if s.err != nil {
		return finding{}
	}
	host, port, _ := strings.Cut(primary.addr, ":")
	replica := s.redis("--replicaof", host+" "+port)
	s.until("the replica follows", func() error { return says(s.ctx, replica.addr, "replication", "master_link_status:up") })
	if s.err != nil {
		return finding{}
	}
	sentinel, err := startSentinel(s.ctx, primary.dir, primary.addr)
	if err != nil {
		s.fail(err)
		return finding{}
	}
	s.end = append(s.end, sentinel.kill)
	s.until("the Sentinel knows the replica", func() error { return says(s.ctx, sentinel.addr, "sentinel", "slaves=1") })
	server := "redis-sentinel://" + sentinel.addr + "/main"
	if s.ours() {
		server += "?prefix=" + s.on.prefix
	}
	o := order{Server: server, Expiry: time.Minute}
	a.begin(o)

	// The replica lags: it reads nothing, and its connection is cut.
	s.fail(replica.halt())
	_, err = command(s.ctx, primary.addr, "CLIENT", "KILL", "TYPE", "replica")
	s.fail(err)
	a.must(a.lock(item, patience))
	a.say(holds, "the replica lags: it does not have this lock")
	if s.err != nil {
		return finding{}
	}
	s.fail(hasty(s.ctx, sentinel.addr))
	primary.kill()
	s.fail(replica.proceed())
	a.say(holds, "the primary dies")
	s.until("the replica is promoted", func() error { return promoted(s.ctx, sentinel.addr, replica.addr) })
	a.say(holds, "the replica is promoted")
	b.begin(o)
	b.must(b.lock(item, patience))
	both := a.believes(item)
	b.write(item, "90")
	let := a.write(item, "95")
	if s.ours() {
		s.fail(a.do("loss", item, patience))
		a.believes(item)
	}
	switch {
	case !s.ours():
		return finding{both && let, "the lock was granted twice, and A overwrote what B had written"}
	case let:
		return finding{true, "A overwrote what B had written"}
	case both:
		return finding{seen: "Redis granted twice too, as docs/guarantees.md declares: both held until A was told; " +
			"but the token of B is higher, and the resource refused the write of A. Where no two may hold, use etcd or ZooKeeper"}
	}
	return finding{seen: "Redis granted twice too, as docs/guarantees.md declares, but A knew by then that it had lost; " +
		"the token of B is higher, and the resource refused the write of A. Where no two may hold, use etcd or ZooKeeper"}
}

// until asks until ask says nil.
func (s *stage) until(what string, ask func() error) {
	var err error
	for end := time.Now().Add(patience); s.err == nil && time.Now().Before(end); s.wait(20 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	s.fail(fmt.Errorf("%s: not within %v: %w", what, patience, err))
}
