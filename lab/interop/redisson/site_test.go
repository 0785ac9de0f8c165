package redisson

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"leasehold/engine/redis/redissonlock"
	it "leasehold/lab/interop/internal/interoptest"
	"leasehold/lab/servers"
)

// site is where locks are: one server, or the nodes of a Cluster.
type site struct {
	nodes []*servers.RedisServer
	at    string // the beginning of an engine's URL
}

// url names an engine there, with locks of a kind.
func (s *site) url(kind redissonlock.Kind) string { return s.at + "?kind=" + string(kind) }

// channelOf is where the release of a plain or fenced lock is told.
func channelOf(name string) string { return "redisson_lock__channel:" + tagged(name) }

// channelOfReadWrite is where that of a read-write lock is told.
func channelOfReadWrite(name string) string { return "redisson_rwlock:" + tagged(name) }

// tagged is a name as it stands in what Redisson puts beside the lock.
func tagged(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// listening waits until at least so many listen to a channel: on any node, in either
// of Redisson's ways.
func (s *site) listening(t *testing.T, channel string, n int64) {
	t.Helper()
	it.Until(t, fmt.Sprintf("%d listen to %s", n, channel), func() bool {
		var sum int64
		for _, node := range s.nodes {
			for _, kind := range []string{"NUMSUB", "SHARDNUMSUB"} {
				v, err := node.Do("PUBSUB", kind, channel)
				if err != nil {
					continue // before 7.0 there is but one way
				}
				sum += v.([]any)[1].(int64)
			}
		}
		return sum >= n
	})
}

// scripts is how many scripts have been run: every attempt to lock or unlock, ours
// and Redisson's, is one.
func (s *site) scripts(t *testing.T) (n int) {
	t.Helper()
	for _, node := range s.nodes {
		for _, command := range []string{"eval", "evalsha"} {
			text, err := node.Info("cmdstat_" + command)
			if err != nil {
				continue // none so far
			}
			calls, _, _ := strings.Cut(strings.TrimPrefix(text, "calls="), ",")
			k, err := strconv.Atoi(calls)
			if err != nil {
				t.Fatalf("INFO commandstats: %q", text)
			}
			n += k
		}
	}
	return n
}

// sleeps begins a command of Java that must wait, on a server that knows its scripts
// and runs no others, and returns when it waits: Redisson tries, subscribes, and
// tries once more before it sleeps.
func (s *site) sleeps(t *testing.T, java *Thread, command, kind, name string) <-chan Answer {
	t.Helper()
	before := s.scripts(t)
	waits := java.Go(command, kind, name)
	it.Until(t, "Java has tried twice", func() bool { return s.scripts(t)-before >= 2 })
	// It has its answer a moment later. Redisson forgets its own message 1, which
	// follows a writer, if it comes before that: see aWakeIsLost.
	time.Sleep(50 * time.Millisecond)
	return waits
}
