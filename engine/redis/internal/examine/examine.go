// Package examine reads what is dangerous for locks on a Redis: the settings of its
// servers, and keys that look like locks. It sends no command that writes.
package examine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/findings"
	"leasehold/engine/redis/internal/redisconn"
)

// Store is what is examined, and what the URL says of it.
type Store struct {
	*redisconn.Client
	List *findings.List

	Name         string // of the server; empty: as the client knows it
	Where        string // follows the name of a key, where there are several stores: " on host"
	Ours         string // begins leasehold's own keys, beside those that always do; may be empty
	Redisson     bool   // the names are Redisson's
	Queues       bool   // the URL is one of queuelock, which alone has ?replicas= and ?restart-delay=
	Replicas     int    // that must acknowledge a hold
	RestartDelay bool   // a server that was restarted grants nothing for a while
	Elected      bool   // Sentinel or Cluster chooses the primary
}

const (
	lagging = 5 * time.Second // a replica acknowledges every second
	nearly  = 0.9             // of a bound
)

// Unread notes a part that could not be read, with the right that would help a user who was
// refused. A server that did not answer does not need one.
func (s *Store) Unread(part string, err error, right string) {
	if !errors.Is(err, engine.ErrRefused) {
		right = ""
	}
	s.List.Unread(part, err, right)
}

// Servers examines the settings of every server.
func (s *Store) Servers(ctx context.Context) error {
	for _, n := range s.Nodes() {
		n.Addr = cmp.Or(s.Name, n.Addr)
		info, err := n.Info(ctx)
		if findings.Over(ctx, err) {
			return err
		}
		if err != nil {
			s.Unread("INFO of "+n.Addr, err, "+info")
			continue
		}
		s.server(ctx, n, info)
	}
	return nil
}

// server examines one.
func (s *Store) server(ctx context.Context, n redisconn.Node, info map[string]string) {
	s.version(n.Addr, info)
	s.memory(n.Addr, info)
	config := map[string]string{}
	for _, pattern := range []string{"append*", "no-appendfsync*", "save", "min-*-to-write", "min-*-max-lag"} {
		part, err := n.Ask(ctx, "CONFIG", "GET", pattern).AsStrMap()
		if err != nil {
			s.Unread("CONFIG GET of "+n.Addr, redisconn.Explain(err, ""), "+config|get")
			config = nil
			break
		}
		for k, v := range part {
			config[k] = v
		}
	}
	s.disk(n.Addr, info, config)
	s.replication(n.Addr, info, config)
}

// version examines whether the engines' scripts run there.
func (s *Store) version(addr string, info map[string]string) {
	if tooOld(info["redis_version"]) {
		s.List.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "the server is too old",
			Means: "The scripts of leasehold need Redis 6.2 or a Valkey.",
			Do:    "Update the server.",
		}, "%s is Redis %s", addr, info["redis_version"])
	}
	if info["cluster_enabled"] == "1" && !s.Cluster() {
		s.List.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "the server is one node of a Cluster",
			Means: "A client of this node alone finds only the names of its slots.",
			Do:    "Use redis-cluster:// with several nodes.",
		}, "%s", addr)
	}
	clients, most := number(info["connected_clients"]), number(info["maxclients"])
	if most > 0 && clients >= nearly*most {
		s.List.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "the connections are nearly used up",
			Means: "A holder that must connect again is refused, cannot renew, and loses its lease.",
			Do:    "Raise maxclients, or find the program that opens so many connections with CLIENT LIST.",
		}, "%s has %.0f of %.0f", addr, clients, most)
	}
}

// tooOld: a version is 6.0.16 or 7.2.4.
func tooOld(version string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n < 2 {
		return false // a server with versions of its own
	}
	return major < 6 || major == 6 && minor < 2
}

// memory examines what happens when it is full.
func (s *Store) memory(addr string, info map[string]string) {
	policy, most, used := info["maxmemory_policy"], number(info["maxmemory"]), number(info["used_memory"])
	switch evicts := strings.HasPrefix(policy, "volatile-") || strings.HasPrefix(policy, "allkeys-"); {
	case evicts:
		f := engine.Finding{
			Severity: engine.SeverityProblem, What: "keys may be evicted",
			Means: "When the memory is full the server drops keys, the key of a held lock among them. Two hold then.",
			Do:    "Set maxmemory-policy to noeviction, or keep locks on a server without a cache.",
		}
		if most == 0 {
			f.Severity = engine.SeverityWarning // nothing is full
		}
		s.List.Add(f, "%s has maxmemory-policy %s and maxmemory %.0f", addr, policy, most)
	case most > 0 && used >= nearly*most:
		s.List.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "the memory is nearly full",
			Means: "At the bound the server refuses every write, and nobody can lock or renew.",
			Do:    "Raise maxmemory, or remove keys.",
		}, "%s uses %.0f of %.0f bytes", addr, used, most)
	}
}

// disk examines what a crash or a restart forgets. config may be nil.
func (s *Store) disk(addr string, info, config map[string]string) {
	if info["aof_last_write_status"] == "err" || info["rdb_last_bgsave_status"] == "err" {
		s.List.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "the server cannot write its file",
			Means: "It forgets locks when it is restarted, and it may refuse every write until the disk works.",
			Do:    "Look into its log, and free or repair the disk.",
		}, "%s", addr)
	}
	severity := engine.SeverityWarning
	if s.RestartDelay {
		severity = engine.SeverityNote // it grants nothing until what it forgot has expired
	}
	restart := engine.Finding{
		Severity: severity, What: "a restart forgets locks",
		Means: "After a crash or a restart the server grants a name again that somebody still holds.",
		Do:    "Set appendonly yes and appendfsync always" + s.queues(", or use ?restart-delay= longer than every TTL") + ", and check fencing tokens.",
	}
	switch aof := info["aof_enabled"] == "1"; {
	case !aof && config == nil:
		s.List.Add(restart, "%s has no append-only file", addr)
	case !aof && config["save"] == "":
		s.List.Add(restart, "%s keeps nothing (appendonly no, save \"\")", addr)
	case !aof:
		s.List.Add(restart, "%s keeps snapshots only (appendonly no, save %q)", addr, config["save"])
	case config == nil:
	case config["appendfsync"] != "always" || config["no-appendfsync-on-rewrite"] == "yes":
		crash := engine.Finding{
			Severity: engine.SeverityNote, What: "a crash of the machine forgets locks",
			Means: "The server answers before its file is on the disk. A power failure takes back the last grants, and the names are granted again.",
			Do:    "Set appendfsync always and no-appendfsync-on-rewrite no where that matters, or check fencing tokens.",
		}
		if config["appendfsync"] == "no" && !s.RestartDelay {
			crash.Severity = engine.SeverityWarning // not a second, but as long as the system likes
		}
		s.List.Add(crash, "%s has appendfsync %s, no-appendfsync-on-rewrite %s", addr, config["appendfsync"], config["no-appendfsync-on-rewrite"])
	}
}

// replication examines replicas, and what a failover forgets. config may be nil.
func (s *Store) replication(addr string, info, config map[string]string) {
	if info["role"] == "slave" {
		if !s.Elected {
			s.List.Add(engine.Finding{
				Severity: engine.SeverityProblem, What: "the server is a replica",
				Means: "It takes no writes, and what it shows may be old.",
				Do:    "Name its primary, or use redis-sentinel:// or redis-cluster://.",
			}, "%s follows %s:%s", addr, info["master_host"], info["master_port"])
		}
		if info["master_link_status"] != "up" {
			s.List.Add(lags, "%s has no link to its primary %s:%s", addr, info["master_host"], info["master_port"])
		}
		return
	}
	replicas := int(number(info["connected_slaves"]))
	for i := range replicas {
		replica := fields(info["slave"+strconv.Itoa(i)])
		late := time.Duration(number(replica["lag"])) * time.Second
		if replica["state"] != "online" || late >= lagging {
			s.List.Add(lags, "%s:%s of %s is %s and %v behind", replica["ip"], replica["port"], addr, replica["state"], late)
		}
	}
	if replicas < s.Replicas {
		s.List.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "too few replicas",
			Means: "The URL asks that more replicas acknowledge a hold than the server has, so every lock fails.",
			Do:    "Start the replicas, or lower ?replicas=.",
		}, "%s has %d, and ?replicas=%d", addr, replicas, s.Replicas)
	}
	if replicas == 0 && !s.Elected {
		return
	}
	if s.Replicas == 0 {
		s.List.Add(engine.Finding{
			Severity: engine.SeverityNote, What: "a failover may grant twice",
			Means: "Replicas receive a grant after its holder has the answer. A replica that is promoted without it grants the name again.",
			Do:    s.queues("Use ?replicas=1 to narrow this. ") + "Check fencing tokens, or take an engine with consensus.",
		}, "%s has %d replicas", addr, replicas)
	}
	least := cmp.Or(config["min-replicas-to-write"], config["min-slaves-to-write"], "0") // the second as older servers call it
	lag := cmp.Or(config["min-replicas-max-lag"], config["min-slaves-max-lag"])
	unbound := number(least) == 0 || lag == "0" // a 0 in either of them switches both off
	if config != nil && replicas > 0 && s.Replicas == 0 && unbound {
		s.List.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "a primary that is cut off goes on granting",
			Means: "Its clients renew for as long as the network is cut, while the promoted replica grants the same names.",
			Do:    "Set min-replicas-to-write 1 and min-replicas-max-lag to less than the shortest TTL" + s.queues(", or use ?replicas=1") + ".",
		}, "%s has min-replicas-to-write %s and min-replicas-max-lag %s", addr, least, lag)
	}
}

// queues is advice that only a URL of queuelock can follow. Others refuse these parameters.
func (s *Store) queues(advice string) string {
	if !s.Queues {
		return ""
	}
	return advice
}

var lags = engine.Finding{
	Severity: engine.SeverityWarning, What: "a replica lags",
	Means: "If it is promoted now, it lacks the newest grants, and grants these names again.",
	Do:    "Look at its log and at the network, and take it out of the election until it has caught up.",
}

// fields reads "ip=127.0.0.1,port=6380,state=online,offset=14,lag=0".
func fields(text string) map[string]string {
	all := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		k, v, _ := strings.Cut(pair, "=")
		all[k] = v
	}
	return all
}

// number is 0 for what is none.
func number(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return n
}
