package engine

import "context"

// Checker is an engine that can look again whether the settings of its server
// still give what its Guarantees declare: durability, an eviction policy, a
// server that became read-only. Open looks once; the server may have been
// configured or replaced since. It is optional, and found by a type assertion.
type Checker interface {
	// Check returns nil if all is as declared, and else an error that says "what:
	// why; what to do". An error that is not [ErrRefused] means that nothing was
	// learned, as rule 1 says of every call: it was not possible to look. It
	// changes nothing, is bounded by ctx and safe for concurrent use.
	//
	// The core calls it whenever a subscription begins again (see Watch), one
	// call at a time.
	Check(ctx context.Context) error
}
