package engine

import "context"

// Checker is an engine that can check again whether the settings of its server still
// give what its Guarantees declare: durability, no eviction, a server that accepts
// writes. Open checks once, but the server may have been configured or replaced since.
// Checker is optional; a type assertion finds it.
type Checker interface {
	// Check returns nil if all is as declared, and otherwise an error "what: why; what
	// to do". The error of its context means that nothing was learned. Check changes
	// nothing and is safe for concurrent use.
	//
	// The core calls it in the background, bounded and one call at a time, whenever a
	// subscription begins again (rule 6), and passes the result to its Observer.
	Check(ctx context.Context) error
}
