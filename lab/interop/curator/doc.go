// Package curator drives live Curator clients, so that tests and the benchmark can
// share locks with them: one Java process for each client, which does what lines on
// its standard input say (the program is in the folder java).
//
//	program, err := curator.Build(ctx, curator.Current)
//	p, err := program.Start(ctx, curator.Options{Servers: []string{server.Addr}})
//	defer p.Close()
//	a, b := p.Thread(1), p.Thread(2)
//	answer, err := a.Do(ctx, "acquire", curator.Mutex, "/locks/name")
//	waits := b.Go("acquire", curator.Mutex, "/locks/name")
//
// Curator's locks belong to a thread. A [Thread] here is one there: it carries out
// one command after the other. The same program has the lock that tutorials have
// people write by hand, on ZooKeeper's own client ([Tutorial]).
//
// What it promises: the Curator that runs is the release that was asked for; a
// process ends with the one that started it, and its session with a time-out. What
// it needs: Maven and a JDK of Java 17 or later, and Maven Central for the first
// build of a release. Where one of them is missing Build says so with [ErrMissing].
package curator
