package engine

import "context"

// Checker is an engine that can look again whether the settings of its server
// still give what its Guarantees declare: durability, an eviction policy, a
// server that became read-only. Open looks once; the server may have been
// configured or replaced since. It is optional, and found by a type assertion.
type Checker interface {
	// Check returns nil if all is as declared, and else an error that says "what:
	// why; what to do". An error that is the context's means that nothing was
	// learned. It changes nothing and is safe for concurrent use.
	//
	// The core calls it in the background, bounded and one call at a time, whenever
	// a subscription begins again (rule 6), and tells its Observer.
	Check(ctx context.Context) error
}
