// Package engines opens any engine of leasehold by a URL, for programs whose
// users choose the engine: the command line, a service with a setting.
//
//	eng, err := engines.Open(ctx, os.Getenv("LEASEHOLD_ENGINE"))
//	locks, err := leasehold.New(eng, nil)
//
// A program that knows its engine imports that engine's package instead and
// links nothing else. This package is a module of its own because it depends
// on every engine there is.
//
// What it promises: an URL it does not understand is refused with the list of
// those it does, and no error of Open shows a password. What it cannot: an
// engine that is opened need not be reachable; the first call finds out.
package engines

import (
	"context"
	"fmt"
	"strings"

	"leasehold/engine"
	"leasehold/engine/memlock"
)

// Default is what an empty URL means: the embedded engine in its default
// directory, for the processes of one machine.
const Default = "dir:"

// Scheme is one kind of URL.
type Scheme struct {
	Name  string // before the colon
	Usage string // how such a URL is written
	open  func(ctx context.Context, rawURL string) (engine.Engine, error)
}

// Schemes lists what Open knows. Adding an engine is one line here.
func Schemes() []Scheme {
	return []Scheme{
		{"dir", "dir:///a/directory, or dir: for the default one", openDir},
		{"mem", "mem: is this process alone, for tests", openMem},
	}
}

// Open opens the engine that rawURL names; empty means [Default]. Close of the
// engine, or of the client that took it over, ends it.
//
// Errors: an unknown scheme (the error lists the known ones), a malformed URL,
// whatever the engine refuses. Passwords in the URL are not in the error.
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	if rawURL == "" {
		rawURL = Default
	}
	name, _, found := strings.Cut(rawURL, ":")
	if !found || strings.ContainsAny(name, `/\`) {
		return nil, fmt.Errorf("engine %q has no scheme: %s", Redact(rawURL), known())
	}
	for _, s := range Schemes() {
		if !strings.EqualFold(s.Name, name) {
			continue
		}
		eng, err := s.open(ctx, rawURL)
		if err != nil {
			return nil, conceal(rawURL, err)
		}
		return eng, nil
	}
	return nil, fmt.Errorf("engine %q: unknown scheme %q: %s", Redact(rawURL), name, known())
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
		return nil, fmt.Errorf("mem: takes nothing after the colon: every one is a memory of its own")
	}
	return memlock.New(), nil
}

// from makes an opener of an engine's own Open, whose result type is its own.
// A failed Open must not become an engine.Engine that is a nil pointer.
func from[E engine.Engine](open func(context.Context, string) (E, error)) func(context.Context, string) (engine.Engine, error) {
	return func(ctx context.Context, rawURL string) (engine.Engine, error) {
		eng, err := open(ctx, rawURL)
		if err != nil {
			return nil, err
		}
		return eng, nil
	}
}
