package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/rueidis"
)

// store is what a schedule needs.
type store int

const (
	redis store = iota
	zookeeper
	private // it starts servers of its own, and ends some of them
)

// ErrServer is of a server that the schedule cannot use.
var ErrServer = errors.New("--server cannot be used")

// ground is what the locks of a schedule stand on.
type ground struct {
	server string // for both locks, but for the prefix
	prefix string // of every name
	close  func()
}

// url is the server for one kind of lock.
func (g ground) url(ours bool) string {
	if !ours || strings.HasPrefix(g.server, "zookeeper") {
		return g.server
	}
	if strings.Contains(g.server, "?") {
		return g.server + "&prefix=" + g.prefix
	}
	return g.server + "?prefix=" + g.prefix
}

// open opens the user's server, or starts one.
func (s store) open(ctx context.Context, server string) (ground, error) {
	g := ground{server: server, prefix: "leasehold-demo-" + strings.ToLower(rand.Text()[:12]) + ":", close: func() {}}
	if server == "" {
		return s.start(ctx, g)
	}
	scheme, _, _ := strings.Cut(strings.ToLower(server), ":")
	_, onRedis := redisSchemes[scheme]
	_, onZooKeeper := zooKeeperSchemes[scheme]
	switch {
	case s == private:
		return g, fmt.Errorf("%w: this schedule ends servers, so it starts its own: leave --server out", ErrServer)
	case s == redis && onRedis:
		return g.cleanRedis()
	case s == zookeeper && onZooKeeper:
		return g.inZooKeeper(ctx)
	case s == redis:
		return g, fmt.Errorf("%w: this schedule runs on Redis: give redis://, rediss://, redis+unix://, redis-sentinel:// or redis-cluster://, not %q", ErrServer, scheme)
	}
	return g, fmt.Errorf("%w: this schedule runs on ZooKeeper: give zookeeper://host:2181 or zookeepers://host:2281, not %q", ErrServer, scheme)
}

func (s store) start(ctx context.Context, g ground) (ground, error) {
	if s == private {
		return g, nil
	}
	dir, err := os.MkdirTemp("", "leasehold-demo")
	if err != nil {
		return g, err
	}
	var d *daemon
	if s == redis {
		d, err = startRedis(ctx, dir)
	} else {
		d, err = startZooKeeper(ctx, dir)
	}
	if err != nil {
		os.RemoveAll(dir)
		return g, err
	}
	g.close = func() {
		d.kill()
		os.RemoveAll(dir)
	}
	if s == redis {
		g.server = "redis://" + d.addr
		return g, nil
	}
	g.server = "zookeeper://" + d.addr
	private, err := g.inZooKeeper(ctx)
	if err != nil {
		g.close()
		return g, err
	}
	end := private.close
	private.close = func() {
		end()
		g.close()
	}
	return private, nil
}

// cleanRedis removes every name with the prefix at the end.
func (g ground) cleanRedis() (ground, error) {
	client, err := dialRedis(g.server)
	if err != nil {
		return g, err
	}
	g.close = func() {
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, node := range client.Nodes() { // of a Cluster; else one
			clean(ctx, client, node, g.prefix)
		}
	}
	return g, nil
}

// clean removes what one server has with that prefix. A replica names what its primary has.
func clean(ctx context.Context, client, node rueidis.Client, prefix string) {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(prefix+"*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			return // what is left expires, but for one key of SETNX
		}
		cursor = page.Cursor
		for _, key := range page.Elements { // each may be in another slot
			client.Do(ctx, client.B().Unlink().Key(key).Build())
		}
	}
}

// inZooKeeper makes a node below which all happens, and removes it at the end.
func (g ground) inZooKeeper(ctx context.Context) (ground, error) {
	where, err := parseZooKeeper(g.server)
	if err != nil {
		return g, err
	}
	conn, err := dialZooKeeper(ctx, where)
	if err != nil {
		return g, err
	}
	own := strings.TrimSuffix(g.prefix, ":")
	root := "/" + strings.TrimLeft(where.Path+"/"+own, "/")
	if _, err := conn.Create(root, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		conn.Close()
		return g, fmt.Errorf("creating the node %s: %w", root, err)
	}
	before, query, _ := strings.Cut(g.server, "?")
	g.server = strings.TrimRight(before, "/") + "/" + own + "?" + query
	g.close = func() {
		defer conn.Close()
		// Without a server a request waits for one, until the connection is closed.
		defer time.AfterFunc(patience, conn.Close).Stop()
		removeBelow(conn, root, time.Now().Add(patience))
	}
	return g, nil
}

// removeBelow removes a node and all below it. Nodes of sessions that are just ending
// come and go, so it begins again until nothing is left.
func removeBelow(conn *zk.Conn, path string, until time.Time) {
	for time.Now().Before(until) {
		children, _, err := conn.Children(path)
		if err != nil {
			return
		}
		for _, child := range children {
			removeBelow(conn, path+"/"+child, until)
		}
		if err := conn.Delete(path, -1); err == nil || errors.Is(err, zk.ErrNoNode) {
			return
		}
	}
}

// pttl is what Redis says of a key's expiry: -1 is none.
func (g ground) pttl(ctx context.Context, key string) (int64, error) {
	client, err := dialRedis(g.server)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	return client.Do(ctx, client.B().Pttl().Key(key).Build()).AsInt64()
}

// command is one command to a server that the schedule has started.
func command(ctx context.Context, addr string, words ...string) (rueidis.RedisMessage, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	defer client.Close()
	return client.Do(ctx, client.B().Arbitrary(words...).Build()).ToMessage()
}
