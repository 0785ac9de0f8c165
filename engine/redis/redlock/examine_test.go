package redlock

import (
	"net"
	"testing"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

const note, warning, problem = engine.SeverityNote, engine.SeverityWarning, engine.SeverityProblem

func examinedAt(t testing.TB, params string, addrs ...string) testutil.Findings {
	t.Helper()
	return testutil.Examined(t, Examine, urlOf(params, addrs...), engine.ExamineOptions{})
}

func TestExamineMasters(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, &servers.RedisOptions{Durable: true})
	at := addrs(all)
	f := examinedAt(t, "", at...)
	f.Healthy(t, warning)
	f.Want(t, note, "a master was restarted within max-ttl", at[0], at[2])
	examinedAt(t, "restart-delay=off", at...).Want(t, warning, "a master was restarted within max-ttl", at[1])
	redistest.Until(t, "it runs for a second", func() bool {
		_, young := examinedAt(t, "max-ttl=1s", at...)["a master was restarted within max-ttl"]
		return !young
	})
	examinedAt(t, "", append(at, masters(t, 1, nil)[0].Addr)...).Want(t, note, "the number of masters is even", "4")

	redistest.Do(t, all[1], "SET", "old.lock", "x")
	before := redistest.Do(t, all[1], "DBSIZE")
	f = examinedAt(t, "", at...)
	f.Want(t, warning, "a lock key has no expiry", `"old.lock" on `+at[1])
	if after := redistest.Do(t, all[1], "DBSIZE"); after != before {
		t.Errorf("%v keys, and %v before", after, before)
	}

	// The same server under two names.
	_, port, _ := net.SplitHostPort(at[0])
	examinedAt(t, "", "localhost:"+port, at[0], at[1]).Want(t, problem, "two masters are one server", at[0])

	// One master follows another.
	host, port, _ := net.SplitHostPort(at[1])
	redistest.Do(t, all[2], "REPLICAOF", host, port)
	redistest.Until(t, "it has a replica", func() bool {
		_, has := examinedAt(t, "", at...)["a master has replicas"]
		return has
	})
	f = examinedAt(t, "", at...)
	f.Want(t, problem, "the server is a replica", at[2])
	f.Want(t, warning, "a master has replicas", at[1])
	redistest.Do(t, all[2], "REPLICAOF", "NO", "ONE")

	if err := all[0].Kill(); err != nil {
		t.Fatal(err)
	}
	examinedAt(t, "", at...).Want(t, warning, "a master cannot be reached", at[0], "refused")
	if err := all[1].Stop(); err != nil { // it is there and does not answer
		t.Fatal(err)
	}
	examinedAt(t, "", at...).Want(t, problem, "a master cannot be reached", at[0], at[1])
	if err := all[2].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := Examine(within(t), urlOf("", at...), engine.ExamineOptions{}, func(engine.Finding) {}); err == nil {
		t.Error("nobody is there, and it is no error")
	}
	if err := all[1].Cont(); err != nil {
		t.Fatal(err)
	}
}
