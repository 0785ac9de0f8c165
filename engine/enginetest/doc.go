// Package enginetest is the conformance suite of package engine: it checks the
// nine rules against any engine, one file per promise, and prints what it
// found as a table. It promises that an engine which breaks a rule in a way
// one machine can show is caught by the file of that promise (package broken
// has the engines that prove it). It cannot show what needs several machines:
// skew between clocks, partitions, a server that loses what it confirmed.
//
// # For the author of an engine
//
// This test runs everything that needs no hook:
//
//	func TestConformance(t *testing.T) {
//		dir := t.TempDir() // the store: one for all cases
//		enginetest.Run(t, enginetest.Harness{
//			Name: "mine",
//			New:  func(t testing.TB) engine.Engine { return open(t, dir) },
//		})
//	}
//
// Then give it hooks: [Harness.Kill], [Harness.Restart], [Harness.Forget],
// [Harness.LoseReply], [Harness.FailPartial], [Harness.CountKeys],
// [Harness.RefuseConnections], [Harness.Spoil], [Harness.CountRequests]. The table shows
// a promise that needs an absent hook as "not exercised".
//
// A case is named after what holds, so a green line and a red one name the same
// promise:
//
//	--- FAIL: TestConformance/replaces/the_turn_is_lost_when_somebody_waits
//
// # What the outcomes mean
//
//   - pass: the promise was put to the test and kept.
//   - refused: Guarantees does not declare it, and asking for it was refused
//     with errors.ErrUnsupported, which is what was tested.
//   - not declared: Guarantees does not declare it, and there is no request to
//     refuse (Order none, Fencing none, no notifications).
//   - not exercised: the harness has no hook for it, so it is unknown.
//
// # Real servers and slow machines
//
// Cases measure no times. They wait for events, each for at most
// [Harness.Patience]. They check that something did not happen after an event
// that comes later. A claim that has to expire has the TTL
// [Harness.ShortTTL]; if a busy machine lets it expire too soon, the case
// notices and starts again. Cases run one after another, unless
// [Harness.SideBySide] is set. They use names and clients of their own, except
// that hooks like Restart hit the whole store.
//
// With -short the crowd is smaller, a client holds 300 names instead of 1,000, and a race of
// calls is repeated less often. Every case runs, with the same checks, and gives the same
// row.
//
// # The row
//
// With LEASEHOLD_GUARANTEES set to a folder, Run writes its row there, one
// small JSON file per engine. `go run ./engine/enginetest/table` renders the
// rows of docs/guarantees into docs/guarantees.md. With [Harness.Committed]
// set, a row that differs from the committed one fails the test:
//
//	LEASEHOLD_GUARANTEES=$PWD/docs/guarantees go test ./engine/mine -run Conformance
//	go run ./engine/enginetest/table
package enginetest
