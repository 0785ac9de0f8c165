package exporter

import (
	"testing"

	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/engines"
	"leasehold/lab/servers"
)

// live are the engines that a scrape is measured with.
func live(b *testing.B) map[string]func() engine.Engine {
	open := func(url string) engine.Engine {
		e, err := engines.Open(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		return e
	}
	return map[string]func() engine.Engine{
		"memory":   func() engine.Engine { return memlock.New() },
		"dir":      func() engine.Engine { return open("dir://" + b.TempDir()) },
		"redis":    func() engine.Engine { return open("redis://" + servers.Redis(b, nil).Addr) },
		"postgres": func() engine.Engine { return open(servers.Postgres(b, nil).URL("postgres", "postgres")) },
	}
}
