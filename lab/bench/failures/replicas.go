package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"leasehold/engines"
	"leasehold/internal/child"
	"leasehold/lab/servers"
	"leasehold/service"
)

// serverEnv makes this program one server of a service, on the engine of this URL.
const serverEnv = "LEASEHOLD_FAILURES_SERVER"

// serverLease is the TTL where the server is stopped that the holder uses. A client leaves such a
// server within 3 s, and its next renewal comes up to a third of the TTL after the fault.
const serverLease = 6 * time.Second

// part is what this process does for another one of this program, if any.
func part() (is bool, err error) {
	if os.Getenv(workerEnv) != "" {
		return true, work()
	}
	if url := os.Getenv(serverEnv); url != "" {
		return true, serveLocks(url)
	}
	return false, nil
}

// serveLocks is leasehold serve, until its input ends. It prints its address.
func serveLocks(url string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	eng, err := engines.Open(ctx, url)
	if err != nil {
		return err
	}
	s, err := service.New(eng, nil)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	go func() {
		os.Stdin.Read(make([]byte, 1)) // until the parent ends
		cancel()
	}()
	return s.Run(ctx, ln, service.RunOptions{})
}

// served is a server in a process of its own.
type served struct {
	*child.Process
	addr string
}

func serving(s *stage, url string) served {
	said := make(chan string, 1)
	p, err := child.Start(nil, []string{serverEnv + "=" + url}, func(line string) { said <- line })
	s.must(err)
	s.Cleanup(p.Kill)
	select {
	case addr := <-said:
		return served{p, addr}
	case <-p.Ended():
		s.Fatalf("a server of the service: %v", p.Wait())
	case <-time.After(bound):
		s.Fatalf("a server of the service does not begin")
	}
	panic("unreachable")
}

// replicas are two servers of one service over one Redis. The holder and the next one use the
// first, which is the one that is killed or stopped.
func replicas(s *stage, fault string) world {
	r := servers.Redis(s, nil)
	one, two := serving(s, "redis://"+r.Addr), serving(s, "redis://"+r.Addr)
	w, cut, mend := cutting(s, "http://%s", one.addr, two.addr)
	switch fault {
	case holderCut:
		w.do, w.heal = cut, mend
	case engineStopped, engineAway:
		w.do, w.heal = r.Stop, r.Cont
	case serverKilled:
		w.do = func() error { one.Kill(); return nil }
	case serverStopped:
		w.do, w.heal = one.Halt, one.Proceed
	}
	return w
}
