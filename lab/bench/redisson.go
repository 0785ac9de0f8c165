package main

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/redis/redissonlock"
	"leasehold/lab/bench/harness"
	"leasehold/lab/interop/redisson"
)

// Rows of Redisson. The last two are hand-overs from one to the other.
const (
	rlock, rfairlock     = "RLock", "RFairLock"
	ourRLock             = "leasehold redisson"
	rlockToUs, usToRLock = "RLock to leasehold", "leasehold to RLock"
)

func redissonLibrary() *javaLibrary {
	return &javaLibrary{
		library: "Redisson", lock: "lock", unlock: "unlock",
		kinds: map[string]string{rlock: redisson.Lock, rfairlock: redisson.Fair},
		mixed: map[string][2]string{rlockToUs: {redisson.Lock, ""}, usToRLock: {"", redisson.Lock}},
		start: func(ctx context.Context, addr string) (*javaProcess, error) {
			program, err := redisson.Build(ctx, redisson.Current)
			if err != nil {
				return nil, err
			}
			return program.Start(ctx, redisson.Options{Addrs: []string{addr}})
		},
		ours: func(ctx context.Context, addr string) (engine.Engine, error) {
			return redissonlock.Open(ctx, "redisson://"+addr)
		},
	}
}

// redissons are Redisson as competitors.
func redissons() []harness.Competitor {
	about := "Redisson " + redisson.Current + ", defaults (lockWatchdogTimeout 30 s); a warm JVM that reads commands, one a line, and times with its own clock"
	return []harness.Competitor{
		{Name: rlock, Renews: true, Open: noLoad, About: about,
			Waits: "subscribes to releases, after which all waiters ask again; without one, asks again when the holder's lease is over"},
		{Name: rfairlock, Renews: true, Open: noLoad, About: about,
			Waits: "the same in order of arrival: only the first waiter is notified"},
		{Name: rlockToUs, Open: noLoad, About: "a process with RLock hands over to one with engine redissonlock"},
		{Name: usToRLock, Open: noLoad, About: "a process with engine redissonlock hands over to one with RLock"},
	}
}

// redissonTargets are what leasehold promises in Redisson's layout, beside the floor of one
// Redis and beside Redisson.
func redissonTargets(floor string) []harness.Target {
	ratio := func(id, key, other string) func(*harness.Results) (harness.Stat, bool) {
		return func(r *harness.Results) (harness.Stat, bool) { return r.Ratio(id, ourRLock, key, id, other, key) }
	}
	return []harness.Target{
		{ID: "redisson-uncontended", What: "lock and unlock in Redisson's layout, p50", Want: "<= 1.5 x SET NX", Most: 1.5, Of: ratio("W1", harness.P50, floor)},
		{ID: "redisson-free-8", What: "hand-over between 8 clients in Redisson's layout, free: pairs/s", Want: ">= 3 x RLock", Least: 3, Of: ratio("W3-redisson-8", harness.Rate, rlock)},
	}
}
