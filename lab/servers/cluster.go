package servers

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// ClusterSetup is a Redis Cluster of six nodes: three primaries, three
// replicas.
type ClusterSetup struct {
	Nodes []*RedisServer // the first three were born primaries
}

// slots is how many Redis Cluster has.
const slots = 16384

// RedisCluster starts a Cluster for a test.
func RedisCluster(t TB, o *RedisOptions) *ClusterSetup {
	t.Helper()
	Need(t, "redis-server")
	c, err := StartCluster(o)
	if err != nil {
		t.Fatalf("Redis Cluster: %v", err)
	}
	closing(t, c.Tail, c.Close)
	return c
}

// StartCluster starts six nodes. Node i+3 replicates node i; a shard that is
// lost does not stop the others (cluster-require-full-coverage no).
func StartCluster(o *RedisOptions) (*ClusterSetup, error) {
	return startCluster(o, make([]*Host, 3))
}

// RedisClusterOn is RedisCluster on three hosts: node i on host i, and what
// replicates it on the next.
func RedisClusterOn(t TB, n *Network, o *RedisOptions) *ClusterSetup {
	t.Helper()
	Need(t, "redis-server")
	c, err := startCluster(o, n.Hosts)
	if err != nil {
		t.Fatalf("Redis Cluster: %v", err)
	}
	closing(t, c.Tail, c.Close)
	return c
}

func startCluster(o *RedisOptions, hosts []*Host) (_ *ClusterSetup, err error) {
	if o == nil {
		o = &RedisOptions{}
	}
	opts := *o
	opts.cluster = true
	c := &ClusterSetup{}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	for i := range 6 {
		opts.Host = hosts[(i+i/3)%3]
		node, err := StartRedis(&opts)
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, node)
		if _, err := node.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return nil, err
		}
	}
	for i := range 3 {
		args := []string{"CLUSTER", "ADDSLOTS"}
		for slot := slots * i / 3; slot < slots*(i+1)/3; slot++ {
			args = append(args, strconv.Itoa(slot))
		}
		if _, err := c.Nodes[i].Do(args...); err != nil {
			return nil, err
		}
	}
	host, port, _ := net.SplitHostPort(c.Nodes[0].Addr)
	for _, node := range c.Nodes[1:] {
		if _, err := node.Do("CLUSTER", "MEET", host, port); err != nil {
			return nil, err
		}
	}
	for i, node := range c.Nodes[3:] {
		id, err := c.Nodes[i].Do("CLUSTER", "MYID")
		if err != nil {
			return nil, err
		}
		// Refused until gossip has told this node of its primary.
		err = until(startBound, func() error {
			_, err := node.Do("CLUSTER", "REPLICATE", id.(string))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return c, c.Healthy(startBound)
}

// Patient has the nodes miss each other only after that long, and not after a second,
// which a node may be silent for on a busy machine: for tests in which nothing is to
// fail over. One that is restarted has to be told again.
func (c *ClusterSetup) Patient(t TB, bound time.Duration) {
	t.Helper()
	for _, node := range c.Nodes {
		if _, err := node.Do("CONFIG", "SET", "cluster-node-timeout", strconv.FormatInt(bound.Milliseconds(), 10)); err != nil {
			t.Fatalf("Redis Cluster: %v", err)
		}
	}
}

// Healthy waits until every node sees all slots served and three replicas
// linked.
func (c *ClusterSetup) Healthy(bound time.Duration) error {
	return until(bound, func() error {
		for _, node := range c.Nodes {
			v, err := node.Do("CLUSTER", "INFO")
			if err != nil {
				return err
			}
			info := v.(string)
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_ok:16384") {
				return fmt.Errorf("%s sees %s", node.Addr, strings.Join(strings.Fields(info), " "))
			}
			if v, err = node.Do("CLUSTER", "NODES"); err != nil {
				return err
			}
			text := v.(string)
			if n := strings.Count(text, "slave"); n != 3 || strings.Contains(text, "fail") {
				return fmt.Errorf("%s sees\n%s", node.Addr, text)
			}
			if role, err := node.Role(); err != nil {
				return err
			} else if role == "slave" {
				if err := linked(node); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Addrs are the addresses of the nodes.
func (c *ClusterSetup) Addrs() (addrs []string) {
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr)
	}
	return addrs
}

// NodeOf is the primary that serves a key, as the living nodes see it.
func (c *ClusterSetup) NodeOf(key string) (*RedisServer, error) {
	for _, node := range c.Nodes {
		if !node.Alive() {
			continue
		}
		v, err := node.Do("CLUSTER", "KEYSLOT", key)
		if err != nil {
			continue
		}
		return c.NodeOfSlot(int(v.(int64)))
	}
	return nil, fmt.Errorf("no node answers")
}

// NodeOfSlot is the primary that serves a slot.
func (c *ClusterSetup) NodeOfSlot(slot int) (*RedisServer, error) {
	for _, asked := range c.Nodes {
		if !asked.Alive() {
			continue
		}
		v, err := asked.Do("CLUSTER", "SLOTS")
		if err != nil {
			continue
		}
		for _, r := range v.([]any) {
			r := r.([]any)
			if int64(slot) < r[0].(int64) || int64(slot) > r[1].(int64) {
				continue
			}
			primary := r[2].([]any)
			for _, node := range c.Nodes {
				if node.Addr == net.JoinHostPort(primary[0].(string), fmt.Sprint(primary[1])) {
					return node, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("nobody serves slot %d", slot)
}

// Heal restarts nodes that are dead and waits until all is healthy again.
func (c *ClusterSetup) Heal(bound time.Duration) error {
	for _, node := range c.Nodes {
		if !node.Alive() {
			if err := node.Restart(false); err != nil {
				return err
			}
		}
	}
	return c.Healthy(bound)
}

// Tail is the end of every log.
func (c *ClusterSetup) Tail() string { return tails(c.Nodes) }

// Close ends all nodes.
func (c *ClusterSetup) Close() error { return closeAll(c.Nodes) }
