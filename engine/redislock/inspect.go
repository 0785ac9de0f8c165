package redislock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

// Line implements [engine.Engine].
func (e *Engine) Line(ctx context.Context, name string) (engine.Line, error) {
	if err := engine.CheckName(name); err != nil {
		return engine.Line{}, err
	}
	if e.closed.Load() {
		return engine.Line{}, engine.ErrClosed
	}
	key := e.key(name)
	return view(name, key, e.run(ctx, &e.scripts.read, call{keys: []string{key}}).RedisResult)
}

func view(name, key string, r rueidis.RedisResult) (engine.Line, error) {
	none := engine.Line{Name: name}
	both, err := r.ToArray()
	if err != nil {
		return none, explain(err, key)
	}
	if len(both) != 2 {
		return none, fmt.Errorf("redis: not an answer of ours: %d values", len(both))
	}
	micros, err := both[0].AsInt64()
	if err != nil {
		return none, err
	}
	fields, err := both[1].AsStrMap()
	if err != nil {
		return none, err
	}
	l, err := parseLine(fields)
	if err != nil {
		return none, foreign(key)
	}
	return l.View(time.Duration(micros)*time.Microsecond, name), nil
}

// Lines implements [engine.Engine]. It walks the keys of every primary with
// SCAN, some hundred at a time, so it never blocks the server; a line that
// moves between servers meanwhile may be missed.
func (e *Engine) Lines(ctx context.Context, prefix string) iter.Seq2[engine.Line, error] {
	return func(yield func(engine.Line, error) bool) {
		if e.closed.Load() {
			yield(engine.Line{}, engine.ErrClosed)
			return
		}
		nodes, err := e.primaries(ctx)
		if err != nil {
			yield(engine.Line{}, err)
			return
		}
		pattern := glob(e.prefix) + "{??}:" + glob(prefix) + "*"
		seen := map[string]bool{} // SCAN may repeat a key
		for _, node := range nodes {
			for cursor := uint64(0); ; {
				entry, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(scanBatch).Type("hash").Build()).AsScanEntry()
				if err != nil {
					yield(engine.Line{}, explain(err, ""))
					return
				}
				var names []string
				var calls []call
				for _, key := range entry.Elements {
					name, ok := e.nameOf(key)
					if !ok || seen[name] || key != e.key(name) || engine.CheckName(name) != nil {
						continue
					}
					seen[name] = true
					names = append(names, name)
					calls = append(calls, call{keys: []string{key}})
				}
				for i, r := range e.runAll(ctx, &e.scripts.read, calls) {
					l, err := view(names[i], calls[i].keys[0], r.RedisResult)
					if errors.Is(err, errForeign) {
						continue // somebody else's key is not a line
					}
					if err != nil {
						yield(engine.Line{}, err)
						return
					}
					if len(l.Claims) > 0 && !yield(l, nil) {
						return
					}
				}
				if cursor = entry.Cursor; cursor == 0 {
					break
				}
			}
		}
	}
}

// scanBatch is how many keys one SCAN looks at.
const scanBatch = 500

// primaries are the servers that between them have every key once.
func (e *server) primaries(ctx context.Context) ([]rueidis.Client, error) {
	if e.client.Mode() != rueidis.ClientModeCluster {
		return []rueidis.Client{e.client}, nil
	}
	slots, err := e.client.Do(ctx, e.client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, explain(err, "")
	}
	nodes := e.client.Nodes()
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
		host, _ := node[0].ToString()
		port, _ := node[1].AsInt64()
		addr := net.JoinHostPort(host, fmt.Sprint(port))
		c, ok := nodes[addr]
		if !ok {
			return nil, fmt.Errorf("redis: the Cluster just gained the node %s: list again", addr)
		}
		chosen[addr] = c
	}
	list := make([]rueidis.Client, 0, len(chosen))
	for _, c := range chosen {
		list = append(list, c)
	}
	return list, nil
}

// glob escapes what SCAN's MATCH would read as a pattern.
func glob(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(`*?[]\^-`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
