package main

import (
	"fmt"
	"strings"

	"leasehold/engine"
)

// requireWords are what --require understands, each with what it adds to what
// the engine must promise.
var requireWords = []struct {
	word string
	need func(*engine.Guarantees)
}{
	{"fencing", func(g *engine.Guarantees) { g.Fencing = engine.FencingMemory }},
	{"cluster", func(g *engine.Guarantees) { g.Scope = engine.ScopeCluster }},
	{"machine", func(g *engine.Guarantees) { g.Scope = max(g.Scope, engine.ScopeMachine) }},
	{"fifo", func(g *engine.Guarantees) { g.Order = engine.FIFO }},
	{"shared", func(g *engine.Guarantees) { g.Modes |= engine.Shared }},
	{"semaphore", func(g *engine.Guarantees) { g.Modes |= engine.Permits }},
	{"detach", func(g *engine.Guarantees) { g.Detach = true }},
	{"no-double-grant", func(g *engine.Guarantees) { g.Failover = engine.FailoverNone }},
	{"waiters", func(g *engine.Guarantees) { g.SeesWaiters = true }},
	{"crash-release", func(g *engine.Guarantees) { g.CrashRelease = engine.CrashSession }},
}

// parseRequire reads --require: words with commas between them.
func parseRequire(text string) (need engine.Guarantees, err error) {
words:
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		var known []string
		for _, r := range requireWords {
			if word == r.word {
				r.need(&need)
				continue words
			}
			known = append(known, r.word)
		}
		return need, fmt.Errorf("unknown requirement %q: known are %s", word, strings.Join(known, ", "))
	}
	return need, nil
}
