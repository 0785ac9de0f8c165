package servers

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// SentinelSetup is a primary with its replicas, watched by three Sentinels.
type SentinelSetup struct {
	Master    string // the name that Sentinels know the primary by
	Nodes     []*RedisServer
	Sentinels []*RedisServer
}

// Sentinel starts a primary, a replica and three Sentinels for a test.
func Sentinel(t TB, o *RedisOptions) *SentinelSetup {
	t.Helper()
	Need(t, "redis-server", "redis-sentinel")
	s, err := StartSentinel(o)
	if err != nil {
		t.Fatalf("Sentinel: %v", err)
	}
	closing(t, s.Tail, s.Close)
	return s
}

// StartSentinel starts a primary, a replica and three Sentinels, which fail
// over about a second after the primary died. The options are those of the two
// nodes.
func StartSentinel(o *RedisOptions) (*SentinelSetup, error) {
	return startSentinel(o, make([]*Host, 2), make([]*Host, 3))
}

// SentinelOn is Sentinel with a node and a Sentinel on each of three hosts. The
// primary is on the first.
func SentinelOn(t TB, n *Network, o *RedisOptions) *SentinelSetup {
	t.Helper()
	Need(t, "redis-server", "redis-sentinel")
	s, err := startSentinel(o, n.Hosts, n.Hosts)
	if err != nil {
		t.Fatalf("Sentinel: %v", err)
	}
	closing(t, s.Tail, s.Close)
	return s
}

func startSentinel(o *RedisOptions, nodes, sentinels []*Host) (_ *SentinelSetup, err error) {
	if o == nil {
		o = &RedisOptions{}
	}
	s := &SentinelSetup{Master: "main"}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	for _, where := range nodes {
		opts := *o
		opts.Host = where
		node, err := StartRedis(&opts)
		if err != nil {
			return nil, err
		}
		s.Nodes = append(s.Nodes, node)
	}
	host, port, _ := net.SplitHostPort(s.Nodes[0].Addr)
	for _, node := range s.Nodes[1:] {
		if _, err := node.Do("REPLICAOF", host, port); err != nil {
			return nil, err
		}
		if err := until(startBound, func() error { return linked(node) }); err != nil {
			return nil, err
		}
	}
	conf := []string{
		fmt.Sprintf("sentinel monitor %s %s %s 2", s.Master, host, port),
		fmt.Sprintf("sentinel down-after-milliseconds %s 500", s.Master),
		fmt.Sprintf("sentinel failover-timeout %s 3000", s.Master),
	}
	if o.Password != "" {
		conf = append(conf, fmt.Sprintf("sentinel auth-pass %s %s", s.Master, o.Password))
	}
	for _, where := range sentinels {
		one, err := StartRedis(&RedisOptions{Host: where, sentinel: strings.Join(conf, "\n")})
		if err != nil {
			return nil, err
		}
		s.Sentinels = append(s.Sentinels, one)
		// They look at the nodes every ten seconds, which makes starting and
		// healing slow. Before Redis 7 it cannot be changed, only waited for.
		one.Do("SENTINEL", "DEBUG", "info-period", "300", "publish-period", "300")
	}
	return s, s.Healthy(startBound)
}

// Addrs are the Sentinels' addresses.
func (s *SentinelSetup) Addrs() (addrs []string) {
	for _, one := range s.Sentinels {
		addrs = append(addrs, one.Addr)
	}
	return addrs
}

// Primary is the node that the Sentinels name and that says so itself.
func (s *SentinelSetup) Primary() (*RedisServer, error) {
	for _, one := range s.Sentinels {
		v, err := one.Do("SENTINEL", "get-master-addr-by-name", s.Master)
		if err != nil {
			continue
		}
		where, ok := v.([]any)
		if !ok || len(where) != 2 {
			continue
		}
		addr := net.JoinHostPort(where[0].(string), where[1].(string))
		for _, node := range s.Nodes {
			if node.Addr != addr || !node.Alive() {
				continue
			}
			if role, err := node.Role(); err == nil && role == "master" {
				return node, nil
			}
		}
	}
	return nil, errors.New("the Sentinels agree on no living primary")
}

// Patient has the Sentinels miss a node only after that long, and not after half a
// second, which a node may be silent for on a busy machine: for tests in which nothing
// is to fail over.
func (s *SentinelSetup) Patient(t TB, bound time.Duration) {
	t.Helper()
	for _, one := range s.Sentinels {
		if _, err := one.Do("SENTINEL", "SET", s.Master, "down-after-milliseconds", strconv.FormatInt(bound.Milliseconds(), 10)); err != nil {
			t.Fatalf("Sentinel: %v", err)
		}
	}
}

// Replica is the first node that is not the primary.
func (s *SentinelSetup) Replica() (*RedisServer, error) {
	primary, err := s.Primary()
	if err != nil {
		return nil, err
	}
	if s.Nodes[0] == primary {
		return s.Nodes[1], nil
	}
	return s.Nodes[0], nil
}

// Healthy waits until the replicas follow the primary and every Sentinel agrees
// and knows all nodes and both other Sentinels: ready for a failover.
func (s *SentinelSetup) Healthy(bound time.Duration) error {
	return until(bound, func() error {
		primary, err := s.Primary()
		if err != nil {
			return err
		}
		for _, node := range s.Nodes {
			if node == primary {
				continue
			}
			if err := linked(node); err != nil {
				return err
			}
		}
		for _, one := range s.Sentinels {
			v, err := one.Do("SENTINEL", "master", s.Master)
			if err != nil {
				return err
			}
			f := pairs(v)
			if f["flags"] != "master" || f["num-slaves"] != strconv.Itoa(len(s.Nodes)-1) || f["num-other-sentinels"] != "2" ||
				net.JoinHostPort(f["ip"], f["port"]) != primary.Addr {
				return fmt.Errorf("a Sentinel sees %s:%s as %s with %s replicas and %s other Sentinels",
					f["ip"], f["port"], f["flags"], f["num-slaves"], f["num-other-sentinels"])
			}
			if v, err = one.Do("SENTINEL", "replicas", s.Master); err != nil {
				return err
			}
			for _, r := range v.([]any) {
				if f := pairs(r); f["flags"] != "slave" || f["master-link-status"] != "ok" {
					return fmt.Errorf("a Sentinel sees a replica as %s, its link %s", f["flags"], f["master-link-status"])
				}
			}
		}
		return nil
	})
}

// Heal restarts nodes that are dead and waits until all is healthy again.
func (s *SentinelSetup) Heal(bound time.Duration) error {
	for _, node := range s.Nodes {
		if !node.Alive() {
			if err := node.Restart(false); err != nil {
				return err
			}
		}
	}
	return s.Healthy(bound)
}

// Tail is the end of every log.
func (s *SentinelSetup) Tail() string { return tails(append(s.Nodes, s.Sentinels...)) }

// Close ends all of it.
func (s *SentinelSetup) Close() error { return closeAll(append(s.Sentinels, s.Nodes...)) }

func linked(replica *RedisServer) error {
	status, err := replica.Info("master_link_status")
	if err == nil && status != "up" {
		err = fmt.Errorf("the link of the replica %s is %q", replica.Addr, status)
	}
	return err
}

func pairs(v any) map[string]string {
	m := map[string]string{}
	list, _ := v.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		k, _ := list[i].(string)
		m[k], _ = list[i+1].(string)
	}
	return m
}

func tails[S interface{ Tail() string }](all []S) string {
	var b strings.Builder
	for _, one := range all {
		b.WriteString(one.Tail() + "\n")
	}
	return b.String()
}

func closeAll[S interface{ Close() error }](all []S) error {
	var err error
	for _, one := range all {
		err = errors.Join(err, one.Close())
	}
	return err
}
