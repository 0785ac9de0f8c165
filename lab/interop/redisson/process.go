package redisson

import (
	"context"
	"embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"leasehold/lab/interop/internal/java"
)

// Releases of Redisson that locks are shared with.
const (
	Current = "4.7.0"
	// Old is what many older articles use: it has no unlock latch and no fenced
	// lock, and it publishes with PUBLISH on a Cluster as well.
	Old = "3.13.2"
)

// ErrMissing: this machine has no Maven or no JDK, or Maven Central cannot be
// reached and what the build needs was never fetched before.
var ErrMissing = java.ErrMissing

// What all Java programs have.
type (
	Process   = java.Process
	Thread    = java.Thread
	Answer    = java.Answer
	Exception = java.Exception
)

//go:embed java/pom.xml java/src
var files embed.FS

// Program is the Java program, built with one release of Redisson.
type Program struct{ java.Program }

// Build compiles the program with a release of Redisson, or finds it compiled
// already in the user's cache folder.
//
// Errors: [ErrMissing]; else what Maven says.
func Build(ctx context.Context, release string) (*Program, error) {
	p, err := java.Build(ctx, java.Source{Library: "redisson", Files: files}, release)
	if err != nil {
		return nil, err
	}
	return &Program{*p}, nil
}

// Kinds of lock, as commands name them.
const (
	Lock   = "lock"
	Fair   = "fair"
	Read   = "read"  // of a read-write lock
	Write  = "write" // of a read-write lock
	Fenced = "fenced"
	Red    = "red"   // RedissonRedLock, on Options.Masters
	Multi  = "multi" // RedissonMultiLock, on the same
)

// Options are the choices of one Redisson client.
type Options struct {
	Addrs    []string // host:port; the first alone unless Cluster or Sentinel is set
	Cluster  bool
	Sentinel string        // the primary's name: Addrs are Sentinels
	Watchdog time.Duration // lockWatchdogTimeout; 0: Redisson's default, 30 s
	Masters  []string      // host:port of those of a RedissonRedLock; one client for each
	JVM      []string      // flags for java
}

// Start starts a process and waits until its client is connected and says that it
// is the release that was built. Close or Kill must follow.
func (b *Program) Start(ctx context.Context, o Options) (*Process, error) {
	if len(o.Addrs) == 0 {
		return nil, errors.New("redisson: Options.Addrs is empty")
	}
	mode, addrs := "single", o.Addrs[:1]
	switch {
	case o.Cluster:
		mode, addrs = "cluster", o.Addrs
	case o.Sentinel != "":
		mode, addrs = "sentinel:"+o.Sentinel, o.Addrs
	}
	var urls []string
	for _, addr := range addrs {
		urls = append(urls, "redis://"+addr)
	}
	args := []string{mode, strings.Join(urls, ","), strconv.FormatInt(o.Watchdog.Milliseconds(), 10)}
	for _, addr := range o.Masters {
		args = append(args, "redis://"+addr)
	}
	return b.Program.Start(ctx, o.JVM, args...)
}
