package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/findings"
	"leasehold/engine/redis/internal/examine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/engine/redis/redlock"
)

// examineBound is how long a connection for an examination may take.
const examineBound = 5 * time.Second

// Examine reports what is dangerous for locks in the Redis that a URL names, in any form
// that [Open] takes. It only reads: it opens no engine and writes no key. It calls found
// from the goroutine of its caller, the worst finding first.
//
// Errors: a malformed URL, and a server that cannot be reached or refuses the password. A
// part that this user may not read is a finding.
func Examine(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	scheme = strings.ToLower(scheme)
	if scheme == "redlock" || scheme == "redlocks" {
		return redlock.Examine(ctx, rawURL, o, found)
	}
	// What Open refuses before it reaches anybody is a wrong URL here, too.
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Open(over, rawURL); errors.Is(err, engine.ErrURL) {
		return err
	}
	form, isRedissons := strings.CutPrefix(scheme, "redisson")
	if isRedissons {
		rawURL = "redis" + form + "://" + rest
	}
	t, err := redisconn.ParseURL(rawURL, "prefix", "replicas", "restart-delay", "layout", "kind", "watchdog")
	if err != nil {
		return fmt.Errorf("redis: %w: %w", engine.ErrURL, err)
	}
	s := examine.Store{
		List: findings.New(o), Redisson: isRedissons, RestartDelay: t.Param("restart-delay") != "",
		Elected: strings.Contains(scheme, "-"),
	}
	if t.Param("layout") != "plain" {
		s.Queues = !isRedissons
		s.Ours = t.Param("prefix") // in the plain layout it begins the keys of others, too
	}
	s.Replicas, _ = strconv.Atoi(t.Param("replicas")) // Open has read it
	dial, cancel := context.WithTimeout(ctx, examineBound)
	defer cancel()
	if s.Client, err = redisconn.Dial(dial, t); err != nil {
		return redisconn.Named("redis", err)
	}
	defer s.Close()
	for _, part := range []func(context.Context) error{s.Servers, s.Keys} {
		if err := part(ctx); s.List.Late(ctx, err) {
			break
		} else if err != nil {
			return redisconn.Named("redis", err)
		}
	}
	s.List.Report(found)
	return nil
}
