package redisconn

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

// Check refuses servers that would lose locks: replicas, nodes of a Cluster asked
// for themselves, and those that evict keys, unless that is allowed. What this
// user may not ask is not checked. Of a single server it also records, for FailsOver, whether
// another may take its place: it has replicas, or may not be asked.
func (c *Client) Check(ctx context.Context, allowEviction bool) error {
	replicas, err := c.look(ctx, allowEviction)
	if err == nil && replicas != 0 {
		c.MayFailOver()
	}
	return err
}

// CheckAgain is Check of a client that was opened: of what the server is by now. That
// it has replicas is refused where none were to be expected.
//
// Errors: one that is [engine.ErrRefused] has seen something that is not as declared.
func (c *Client) CheckAgain(ctx context.Context, allowEviction bool) error {
	replicas, err := c.look(ctx, allowEviction)
	var unfit *unfitError
	switch {
	case errors.As(err, &unfit):
		return engine.Refuse("%w", err)
	case err == nil && replicas > 0 && !c.FailsOver():
		return engine.Refuse("this server has %d replicas by now, and one of them may take its place without all grants: "+
			"open it with ?failover, which declares that two may hold then, or remove the replicas", replicas)
	}
	return err
}

// unfitError is of a server that was asked and would lose locks.
type unfitError struct{ error }

func (e *unfitError) Unwrap() error { return e.error }

// look asks every server. Of a single one it tells how many replicas it has: -1 if this
// user may not ask.
func (c *Client) look(ctx context.Context, allowEviction bool) (replicas int, err error) {
	nodes := map[string]rueidis.Client{"this server": c.redis}
	if c.Cluster() {
		nodes = c.redis.Nodes()
	}
	replicas = -1
	var last error
	for addr, node := range nodes {
		info, err := c.info(ctx, node)
		if err != nil {
			if last = Explain(err, ""); !errors.Is(last, engine.ErrRefused) && len(nodes) == 1 {
				return replicas, last
			}
			continue
		}
		if err := c.suitable(info, allowEviction); err != nil {
			return replicas, &unfitError{fmt.Errorf("%s %w", addr, err)}
		}
		if replicas, err = strconv.Atoi(info["connected_slaves"]); err != nil {
			replicas = -1
		}
		last = nil
	}
	if replicas == -1 && last != nil && !strings.Contains(last.Error(), "NOPERM") && !strings.Contains(last.Error(), "no permissions") {
		return replicas, last
	}
	return replicas, nil
}

// info waits while a server that has just started loads its data.
func (c *Client) info(ctx context.Context, node rueidis.Client) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		text, err := c.ask(ctx, node, node.B().Info().Build()).ToString()
		if re, ok := rueidis.IsRedisErr(err); ok && re.IsLoading() {
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-ctx.Done():
				return nil, err
			}
		}
		info := map[string]string{}
		for l := range strings.Lines(text) {
			if k, v, ok := strings.Cut(strings.TrimSpace(l), ":"); ok {
				info[k] = v
			}
		}
		return info, err
	}
}

func (c *Client) suitable(info map[string]string, allowEviction bool) error {
	policy := info["maxmemory_policy"]
	switch {
	case info["cluster_enabled"] == "1" && !c.Cluster():
		return errors.New("is part of a Cluster: use redis-cluster:// or a Cluster client")
	case info["role"] == "slave" && !c.elected():
		return errors.New("is a replica and takes no writes: name its primary, or use redis-sentinel://")
	case strings.HasPrefix(policy, "volatile-") || strings.HasPrefix(policy, "allkeys-"):
		if !allowEviction {
			return fmt.Errorf("may drop the key of a lock that is held when its memory is full (maxmemory-policy %s): "+
				"set it to noeviction, or accept that two may hold with ?allow-eviction", policy)
		}
	}
	return nil
}

// scanBatch is how many keys one SCAN looks at: so few that it blocks nobody.
const scanBatch = 500

// Scan walks the keys of every primary that match a pattern and are of a kind
// (if that is not empty), some at a time, perhaps one more than once. A key that
// moves between servers meanwhile may be missed. An error ends it.
func (c *Client) Scan(ctx context.Context, pattern, kind string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		nodes, err := c.primaries(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, node := range nodes {
			for cursor := uint64(0); ; {
				args := []string{"MATCH", pattern, "COUNT", strconv.Itoa(scanBatch)}
				if kind != "" {
					args = append(args, "TYPE", kind)
				}
				cmd := node.B().Arbitrary("SCAN", strconv.FormatUint(cursor, 10)).Args(args...).Build()
				entry, err := c.ask(ctx, node, cmd).AsScanEntry()
				if err != nil {
					yield(nil, Explain(err, ""))
					return
				}
				if len(entry.Elements) > 0 && !yield(entry.Elements, nil) {
					return
				}
				if cursor = entry.Cursor; cursor == 0 {
					break
				}
			}
		}
	}
}

// Literal escapes what a pattern would not take for itself.
func Literal(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(`*?[]\^-`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// primaries are the servers that between them have every key once.
func (c *Client) primaries(ctx context.Context) ([]rueidis.Client, error) {
	if !c.Cluster() {
		return []rueidis.Client{c.redis}, nil
	}
	slots, err := c.do(ctx, c.redis.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, Explain(err, "")
	}
	nodes := c.redis.Nodes()
	chosen := map[string]rueidis.Client{}
	for _, r := range slots {
		values, err := r.ToArray()
		if err != nil || len(values) < 3 {
			return nil, fmt.Errorf("redis: unreadable CLUSTER SLOTS: %w", err)
		}
		node, err := values[2].ToArray()
		if err != nil || len(node) < 2 {
			return nil, fmt.Errorf("redis: unreadable CLUSTER SLOTS: %w", err)
		}
		host, _ := node[0].ToString() // null is empty
		port, _ := node[1].AsInt64()
		addr := net.JoinHostPort(host, fmt.Sprint(port))
		if host == "" {
			addr = withPort(nodes, addr)
		}
		primary, ok := nodes[addr]
		if !ok {
			return nil, fmt.Errorf("redis: the Cluster just gained the node %s: list again", addr)
		}
		chosen[addr] = primary
	}
	list := make([]rueidis.Client, 0, len(chosen))
	for _, primary := range chosen {
		list = append(list, primary)
	}
	return list, nil
}

// withPort is the address of the only node with the port of addr. A node tells no host if it
// does not know its own (it never met another), or was told to tell none: rueidis takes the
// one at which it asked. Of several it cannot be told which one is meant: addr.
func withPort(nodes map[string]rueidis.Client, addr string) string {
	found := addr
	for known := range nodes {
		if strings.HasSuffix(known, addr) { // ":6379"
			if found != addr {
				return addr
			}
			found = known
		}
	}
	return found
}
