package main

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/zookeeper/zklock"
	"leasehold/lab/bench/harness"
	"leasehold/lab/interop/curator"
)

// Rows of Curator. The last two are hand-overs from one to the other.
const (
	mutex                = "InterProcessMutex"
	mutexToUs, usToMutex = "InterProcessMutex to leasehold", "leasehold to InterProcessMutex"
)

func curatorLibrary() *javaLibrary {
	return &javaLibrary{
		library: "Curator", lock: "acquire", unlock: "release", root: "/",
		kinds: map[string]string{mutex: curator.Mutex},
		mixed: map[string][2]string{mutexToUs: {curator.Mutex, ""}, usToMutex: {"", curator.Mutex}},
		start: func(ctx context.Context, addr string) (*javaProcess, error) {
			program, err := curator.Build(ctx, curator.Current)
			if err != nil {
				return nil, err
			}
			return program.Start(ctx, curator.Options{Servers: []string{addr}})
		},
		ours: func(ctx context.Context, addr string) (engine.Engine, error) {
			return zklock.Open(ctx, "zookeeper://"+addr)
		},
	}
}

// curators are Curator as competitors.
func curators() []harness.Competitor {
	return []harness.Competitor{
		{Name: mutex, Renews: true, Open: noLoad, Waits: "watches the node before its own",
			About: "Curator " + curator.Current + ", defaults (a session of 60 s); a warm JVM that reads commands, one a line, and times with its own clock"},
		{Name: mutexToUs, Open: noLoad, About: "a process with InterProcessMutex hands over to one with engine zklock"},
		{Name: usToMutex, Open: noLoad, About: "a process with engine zklock hands over to one with InterProcessMutex"},
	}
}
