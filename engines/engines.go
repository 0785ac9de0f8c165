// Package engines opens any engine of leasehold by a URL, for programs whose users choose
// the engine: the command line, a service with a setting.
//
//	eng, err := engines.Open(ctx, os.Getenv("LEASEHOLD_ENGINE"))
//	locks, err := leasehold.New(eng, nil)
//
// A program with one engine imports that engine's package instead and links nothing else.
// This package is a module of its own because it depends on every engine.
//
// The build tags no_redis, no_zookeeper, no_etcd, no_mysql and no_postgres leave an engine's
// client library out of the program, which is smaller then: etcd's alone is a fifth of the
// command line. Open refuses such an engine's URL and names the tag.
//
// It promises to refuse an unknown URL with the list of the known ones, and no error of
// Open shows a password. It cannot promise more about a server than that it answered once.
package engines

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"leasehold/engine"
	"leasehold/engine/httplock"
	"leasehold/engine/memlock"
)

// Default is the meaning of an empty URL: the embedded engine in its default directory,
// for the processes of one machine.
const Default = "dir:"

// ErrURL is returned for text that is no URL of an engine. Its scheme or one of its
// parameters is unknown (the error lists the known ones), the rest cannot be parsed, or the
// engine does not take a value.
var ErrURL = engine.ErrURL

// Scheme is one kind of URL.
type Scheme struct {
	Names []string // before the colon, in lower case; any case is accepted
	Usage string   // how such a URL is written
	open  func(ctx context.Context, rawURL string) (engine.Engine, error)

	examine func(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error
}

// Schemes returns the schemes that Open knows. A new engine adds one line here.
func Schemes() []Scheme {
	return []Scheme{
		{[]string{"dir"}, "dir:///a/directory, or dir: for the default one", openDir, examineDir},
		{[]string{"mem"}, "mem: for this process alone", openMem, noExamination},
		{[]string{"https", "http"}, "https://host: a leasehold service", httplock.Open, noExamination},
		{[]string{"redis", "rediss", "valkey", "valkeys"}, "redis://host:6379/0, rediss:// with TLS", openRedis, examineRedis},
		{[]string{"redis+unix", "unix"}, "redis+unix:///path/of/a/socket", openRedis, examineRedis},
		{[]string{"redis-sentinel", "rediss-sentinel"}, "redis-sentinel://host:26379,host:26379/primary", openRedis, examineRedis},
		{[]string{"redis-cluster", "rediss-cluster"}, "redis-cluster://host:6379,host:6379", openRedis, examineRedis},
		{
			[]string{"redisson", "redissons", "redisson+unix", "redisson-sentinel", "redissons-sentinel", "redisson-cluster", "redissons-cluster"},
			"redisson://host:6379?kind=lock and redis' other forms, to share locks with Redisson", openRedis, examineRedis,
		},
		{[]string{"redlock", "redlocks"}, "redlock://host:6379,host:6379,host:6379, ?layout=redisson to share locks with RedissonRedLock", openRedis, examineRedis},
		{[]string{"zookeeper", "zookeepers"}, "zookeeper://host:2181,host:2181/root, zookeepers:// with TLS", openZooKeeper, examineZooKeeper},
		{[]string{"etcd", "etcds"}, "etcd://host:2379,host:2379/prefix, etcds:// with TLS", openEtcd, examineEtcd},
		{[]string{"mysql", "mariadb"}, "mysql://user@host:3306/database", openMySQL, examineMySQL},
		{[]string{"postgres", "postgresql"}, "postgres://user@host:5432/database", openPostgres, examinePostgres},
	}
}

// Open opens the engine that rawURL names; empty means [Default]. ctx and [OpenWithin]
// bound the opening, which may have to reach a server. Open returns in that time even if
// the server never answers. Close of the engine, or of the client that took it over, ends
// it.
//
// The URL is trusted: it decides which servers the program talks to and which files it
// reads, and a password from a file goes to the server of the same URL. Do not take it
// from a person who may not read what this process may.
//
// Open returns [ErrURL], or the error of a server that cannot be reached, does not answer
// in time or refuses. The error does not show passwords of the URL.
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	rawURL = cmp.Or(rawURL, Default)
	s, err := schemeOf(rawURL)
	if err != nil {
		return nil, err
	}
	eng, err := s.openWithin(ctx, rawURL)
	if err != nil {
		return nil, conceal(rawURL, err)
	}
	return eng, nil
}

// schemeOf finds the scheme of a URL.
func schemeOf(rawURL string) (Scheme, error) {
	name, _, found := strings.Cut(rawURL, ":")
	if !found || strings.ContainsAny(name, `/\`) {
		return Scheme{}, fmt.Errorf("engine %q: %w: it has no scheme; %s", Redact(rawURL), ErrURL, known())
	}
	for _, s := range Schemes() {
		if slices.Contains(s.Names, strings.ToLower(name)) {
			return s, nil
		}
	}
	return Scheme{}, fmt.Errorf("engine %q: %w: unknown scheme %q; %s", Redact(rawURL), ErrURL, name, known())
}

// known is the end of every error about a scheme.
func known() string {
	var usages []string
	for _, s := range Schemes() {
		usages = append(usages, s.Usage)
	}
	return "known are " + strings.Join(usages, "; ")
}

func openMem(_ context.Context, rawURL string) (engine.Engine, error) {
	if _, rest, _ := strings.Cut(rawURL, ":"); rest != "" {
		return nil, fmt.Errorf("%w: mem: takes no text after the colon, since each one has a memory of its own: leave it out", ErrURL)
	}
	return memlock.New(), nil
}
