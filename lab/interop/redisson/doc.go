// Package redisson drives live Redisson clients, so that tests and the benchmark
// can share locks with them: one Java process for each client, which does what
// lines on its standard input say (the program is in the folder java).
//
//	program, err := redisson.Build(ctx, redisson.Current)
//	p, err := program.Start(ctx, redisson.Options{Addrs: []string{server.Addr}})
//	defer p.Close()
//	a, b := p.Thread(1), p.Thread(2)
//	answer, err := a.Do(ctx, "lock", redisson.Lock, "name")
//	waits := b.Go("lock", redisson.Lock, "name")
//
// Redisson's locks belong to a thread. A [Thread] here is one there: it carries
// out one command after the other, so what a thread holds only that thread can
// unlock, and two threads of one process exclude each other.
//
// What it promises: the Redisson that runs is the release that was asked for; a
// process ends with the one that started it. What it needs: Maven and a JDK of Java
// 17 or later, and Maven Central for the first build of a release. Where one of them
// is missing Build says so with [ErrMissing].
package redisson
