package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
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
	if ours && !strings.HasPrefix(g.server, "zookeeper") {
		return g.server + "?prefix=" + g.prefix
	}
	return g.server
}

// open opens the user's server, or starts one.
func (s store) open(ctx context.Context, server string) (ground, error) {
	g := ground{server: server, prefix: "leasehold-demo-" + strings.ToLower(rand.Text()[:12]) + ":", close: func() {}}
	if server == "" {
		return s.start(ctx, g)
	}
	scheme, _, _ := strings.Cut(server, ":")
	switch {
	case s == private:
		return g, fmt.Errorf("%w: this schedule ends servers, so it starts its own: leave --server out", ErrServer)
	case strings.ContainsAny(server, "?#"):
		return g, fmt.Errorf("%w: the URL has parameters, which the hand-written lock does not know: leave them out", ErrServer)
	case s == redis && slices.Contains([]string{"redis", "rediss", "valkey", "valkeys", "redis+unix", "unix"}, scheme):
		return g.cleanRedis()
	case s == zookeeper && scheme == "zookeeper":
		return g.inZooKeeper(ctx)
	case s == redis:
		return g, fmt.Errorf("%w: this schedule runs on Redis: give redis://, rediss:// or redis+unix://, not %q", ErrServer, scheme)
	}
	return g, fmt.Errorf("%w: this schedule runs on ZooKeeper: give zookeeper://host:2181, not %q", ErrServer, scheme)
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
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			page, err := client.Do(ctx, client.B().Scan().Cursor(cursor).Match(g.prefix+"*").Count(1000).Build()).AsScanEntry()
			if err != nil {
				return // what is left expires, but for one key of SETNX
			}
			cursor = page.Cursor
			if len(page.Elements) > 0 {
				client.Do(ctx, client.B().Unlink().Key(page.Elements...).Build())
			}
		}
	}
	return g, nil
}

// inZooKeeper makes a node below which all happens, and removes it at the end.
func (g ground) inZooKeeper(ctx context.Context) (ground, error) {
	hosts, root, _ := strings.Cut(strings.TrimPrefix(g.server, "zookeeper://"), "/")
	conn, err := dialZooKeeper(ctx, hosts)
	if err != nil {
		return g, err
	}
	root = strings.Trim(root+"/"+strings.TrimSuffix(g.prefix, ":"), "/")
	if _, err := conn.Create("/"+root, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		conn.Close()
		return g, fmt.Errorf("creating the node /%s: %w", root, err)
	}
	g.server = "zookeeper://" + hosts + "/" + root
	g.close = func() {
		defer conn.Close()
		// Without a server a request waits for one, until the connection is closed.
		defer time.AfterFunc(patience, conn.Close).Stop()
		removeBelow(conn, "/"+root, time.Now().Add(patience))
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
