package enginetest

import (
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/boottime"
)

// Harness is what the suite needs to know of an engine. New and Name are required. Every
// other field is optional. The table shows a promise that needs an absent hook as "not
// exercised", by name: it is the author's decision, and never counts as passed.
//
// A hook fails its test through t, and registers clean-up with t.
type Harness struct {
	// Name is the engine's column in the table.
	Name string

	// New returns one more client of the same store, connected and ready. The store must
	// exist already: t ends with one case, the store serves all. The suite closes the
	// engine.
	New func(t testing.TB) engine.Engine

	// Now and Sleep are the engine's time: both or neither. With a fake clock
	// Sleep moves it; by default they are real.
	Now   func() time.Duration
	Sleep func(time.Duration)

	// ShortTTL is the TTL of claims that are meant to expire. Default: 400 ms,
	// or the engine's MinTTL if that is more. Below it a busy machine loses
	// claims by itself, and such cases must be tried again.
	ShortTTL time.Duration

	// Patience bounds each wait for something that must happen. Default 30 s.
	// It is never waited for when all is well.
	Patience time.Duration

	// SideBySide lets cases run at the same time that concern names and clients of their own
	// alone, apart from all others. Then New, Kill and LoseReply are called at the same time. It
	// saves time where claims take long to expire.
	SideBySide bool

	// Polls means that the engine sends no notifications (it has nothing to send them
	// with). Then PollAfter of every waiting claim must be positive and at most Patience,
	// and the table shows the promises about notifications as not declared.
	Polls bool

	// Restart ends the server as a crash would and starts it again on the
	// same address, with whatever memory its configuration keeps.
	Restart func(t testing.TB)

	// Forget makes the server lose all memory while its clock goes on.
	Forget func(t testing.TB)

	// Kill ends a client as the death of its process would: no Close, no goodbye. With
	// CrashSession it is required to see anything expire, since a live session never does.
	Kill func(t testing.TB, e engine.Engine)

	// LoseReply arranges that the next call of e is carried out and its answer lost. lost
	// reports whether one was.
	LoseReply func(t testing.TB, e engine.Engine) (lost func() bool)

	// FailPartial makes every item of the next batch of e fail that concerns name, and no
	// other item.
	FailPartial func(t testing.TB, e engine.Engine, name string)

	// CountKeys returns how many records (keys, files, rows, entries) the store has for
	// queues, without those that it will drop by itself within a day.
	CountKeys func(t testing.TB) int

	// RefuseConnections makes the server refuse every new connection, like a server
	// without room for more; it serves existing ones. restore ends that, and may be called
	// twice. The clients of the case are open and have been used.
	RefuseConnections func(t testing.TB) (restore func())

	// Spoil puts junk where the store keeps a name, in place of its data or beside it, as
	// a foreign or hostile program would. The key is the kind of junk, such as "a string
	// where a hash is expected". t.Cleanup removes the junk. Calls on that name may answer
	// with errors from then on, but not with context.DeadlineExceeded.
	Spoil map[string]func(t testing.TB, name string)

	// Beside returns further names that a user could choose and that look like the store's
	// own keys beside name. The suite knows those of leasehold's engines.
	Beside func(name string) []string

	// Crowd is how many claims of each of three clients wait for one name. Default 100,
	// and 10 without order, where each may try whenever one leaves. With -short: 24 and 5.
	Crowd int

	// CountRequests returns how many requests the store has got so far, from all clients,
	// or another number that grows with its work.
	CountRequests func(t testing.TB) int

	// Committed is the folder of committed rows, docs/guarantees of the
	// repository. If given, the row measured must equal the one there.
	Committed string
}

func (h Harness) withDefaults(g engine.Guarantees) Harness {
	if h.Now == nil {
		h.Now = boottime.Now
	}
	if h.Sleep == nil {
		h.Sleep = time.Sleep
	}
	if h.ShortTTL == 0 {
		h.ShortTTL = max(400*time.Millisecond, g.MinTTL)
	}
	if h.Patience == 0 {
		h.Patience = 30 * time.Second
	}
	switch {
	case h.Crowd > 0:
	case g.Order == engine.OrderNone && testing.Short():
		h.Crowd = 5
	case g.Order == engine.OrderNone:
		h.Crowd = 10
	case testing.Short():
		h.Crowd = 24
	default:
		h.Crowd = 100
	}
	return h
}
