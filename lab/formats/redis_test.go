package formats

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"leasehold/lab/servers"
)

// keyspace is a Redis: an item is a key, its type, how many seconds it has (in whole minutes), and its
// content.
type keyspace []*servers.RedisServer

func redis(params string) func(t *testing.T) (string, store) {
	return func(t *testing.T) (string, store) {
		s := servers.Redis(t, nil)
		return "redis://" + s.Addr + "/0" + params, keyspace{s}
	}
}

func redisson(kind string) func(t *testing.T) (string, store) {
	return func(t *testing.T) (string, store) {
		s := servers.Redis(t, nil)
		return "redisson://" + s.Addr + "?kind=" + kind, keyspace{s}
	}
}

func redlock(params string) func(t *testing.T) (string, store) {
	return func(t *testing.T) (string, store) {
		var all keyspace
		var addrs []string
		for range 3 {
			s := servers.Redis(t, nil)
			all, addrs = append(all, s), append(addrs, s.Addr)
		}
		return "redlock://" + strings.Join(addrs, ",") + "?timeout=10s&max-ttl=10m&restart-delay=off" + params, all
	}
}

func (k keyspace) do(t *testing.T, s *servers.RedisServer, args ...string) any {
	t.Helper()
	v, err := s.Do(args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return v
}

func texts(v any) (all []string) {
	for _, one := range v.([]any) {
		all = append(all, fmt.Sprint(one))
	}
	return all
}

// dump reads the first server: all of a redlock have the same, as soon as the last has
// answered a call that a majority decides.
func (k keyspace) dump(t *testing.T) []item {
	t.Helper()
	for ctx := within(t); ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		first := k.read(t, k[0])
		if !slices.ContainsFunc(k[1:], func(s *servers.RedisServer) bool { return !reflect.DeepEqual(k.read(t, s), first) }) {
			return first
		}
	}
	t.Fatal("the servers of a redlock do not have the same")
	return nil
}

func (k keyspace) read(t *testing.T, s *servers.RedisServer) (all []item) {
	t.Helper()
	keys := texts(k.do(t, s, "KEYS", "*"))
	slices.Sort(keys)
	for _, key := range keys {
		kind := fmt.Sprint(k.do(t, s, "TYPE", key))
		left, err := strconv.Atoi(fmt.Sprint(k.do(t, s, "PTTL", key)))
		if err != nil {
			t.Fatal(err)
		}
		one := item{key, kind, strconv.Itoa((left + 30000) / 60000 * 60)}
		switch kind {
		case "string":
			one = append(one, fmt.Sprint(k.do(t, s, "GET", key)))
		case "hash":
			fields := texts(k.do(t, s, "HGETALL", key))
			var pairs [][2]string
			for i := 0; i < len(fields); i += 2 {
				pairs = append(pairs, [2]string{fields[i], fields[i+1]})
			}
			slices.SortFunc(pairs, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
			for _, p := range pairs {
				one = append(one, p[0], p[1])
			}
		case "zset":
			one = append(one, texts(k.do(t, s, "ZRANGE", key, "0", "-1", "WITHSCORES"))...)
		case "list":
			one = append(one, texts(k.do(t, s, "LRANGE", key, "0", "-1"))...)
		default:
			t.Fatalf("%s is a %s", key, kind)
		}
		all = append(all, one)
	}
	return all
}

func (k keyspace) wipe(t *testing.T) {
	for _, s := range k {
		k.do(t, s, "FLUSHALL")
	}
}

func (k keyspace) fill(t *testing.T, all []item) {
	t.Helper()
	for _, s := range k {
		for _, one := range all {
			key, content := one[0], one[3:]
			switch one[1] {
			case "string":
				k.do(t, s, "SET", key, content[0])
			case "hash":
				k.do(t, s, append([]string{"HSET", key}, content...)...)
			case "zset":
				for i := 0; i < len(content); i += 2 {
					k.do(t, s, "ZADD", key, content[i+1], content[i])
				}
			case "list":
				k.do(t, s, append([]string{"RPUSH", key}, content...)...)
			}
			if one[2] != "0" {
				k.do(t, s, "EXPIRE", key, one[2])
			}
		}
	}
}
