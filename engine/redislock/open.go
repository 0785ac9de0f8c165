package redislock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

// New is an engine on the caller's own client, which the caller closes after
// the engine. It asks the server once whether it can do what is needed.
func New(ctx context.Context, client rueidis.Client, o *Options) (*Engine, error) {
	return newLines(ctx, client, nil, o)
}

// newLines is New on a client that was made with those options, and that the
// engine closes, if they are not nil.
func newLines(ctx context.Context, client rueidis.Client, own *rueidis.ClientOption, o *Options) (*Engine, error) {
	opts, err := o.check(defaultPrefix)
	if err != nil {
		return nil, err
	}
	if err := probe(ctx, client, &opts); err != nil {
		return nil, fmt.Errorf("redislock: %w", err)
	}
	var id [12]byte
	rand.Read(id[:])
	e := &Engine{
		server: newServer(client, own),
		prefix: opts.Prefix, channel: opts.Prefix + "@" + hex.EncodeToString(id[:]),
		replicas: opts.Replicas, scripts: newScripts(),
	}
	// Leaving a claim that cannot exist shows whether scripts may be run, and
	// teaches every server the script on the way.
	b, err := e.run(ctx, &e.scripts.leave, call{[]string{e.key("probe")}, []string{strings.Repeat("\x00", 16)}}).ToString()
	if err != nil {
		return nil, fmt.Errorf("redislock: %w", explain(err, ""))
	}
	if _, ok := decode(b); !ok {
		return nil, errors.New("redislock: this server runs scripts, but not as Redis does")
	}
	return e, nil
}

// probe refuses servers that would lose locks. What this user may not ask is
// not checked.
func probe(ctx context.Context, client rueidis.Client, o *Options) error {
	nodes := map[string]rueidis.Client{"this server": client}
	if client.Mode() == rueidis.ClientModeCluster {
		nodes = client.Nodes()
	}
	asked := 0
	var last error
	for addr, node := range nodes {
		info, err := infoOf(ctx, node)
		if err != nil {
			if last = explain(err, ""); !errors.Is(last, engine.ErrRefused) && len(nodes) == 1 {
				return last
			}
			continue
		}
		asked++
		if err := suitable(info, client.Mode(), o); err != nil {
			return fmt.Errorf("%s %w", addr, err)
		}
	}
	if asked == 0 && last != nil && !strings.Contains(last.Error(), "NOPERM") && !strings.Contains(last.Error(), "no permissions") {
		return last
	}
	return nil
}

// infoOf waits while a server that has just started loads its data.
func infoOf(ctx context.Context, node rueidis.Client) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		text, err := node.Do(ctx, node.B().Info().Build()).ToString()
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

func suitable(info map[string]string, mode rueidis.ClientMode, o *Options) error {
	policy := info["maxmemory_policy"]
	switch {
	case info["cluster_enabled"] == "1" && mode != rueidis.ClientModeCluster:
		return errors.New("is part of a Cluster: use redis-cluster:// or a Cluster client")
	case info["role"] == "slave" && mode == rueidis.ClientModeStandalone:
		return errors.New("is a replica and takes no writes: name its primary, or use redis-sentinel://")
	case strings.HasPrefix(policy, "volatile-") || strings.HasPrefix(policy, "allkeys-"):
		if !o.AllowEviction {
			return fmt.Errorf("may drop the key of a lock that is held when its memory is full (maxmemory-policy %s): "+
				"set it to noeviction, or accept that two may hold with ?allow-eviction", policy)
		}
	}
	return nil
}
