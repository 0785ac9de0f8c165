package torture

import (
	"leasehold"
	"leasehold/engine"
	"leasehold/fence"
	"leasehold/torture/history"
)

// resource is what holders of one name read and write: two counters, of which the fenced
// one refuses who comes too late.
type resource struct {
	values map[string]int64
	mark   leasehold.Token
}

// serveLocked carries out a Read or a Write, and puts into e what came of it.
func (w *witness) serveLocked(e *history.Event, shared bool) {
	r := w.resources[e.Name]
	if r == nil {
		r = &resource{values: map[string]int64{}}
		w.resources[e.Name] = r
	}
	if e.Resource == history.Fenced {
		// Whoever reads what it will write back shows the token at once: else a stale
		// write could come between its read and its write.
		p := fence.Pass{Name: e.Name, Token: leasehold.Token(e.Token), Mode: engine.Exclusive}
		if shared {
			p.Mode = engine.Shared
		}
		if p.Check(r.mark) != nil {
			e.Stale = true
			return
		}
		r.mark = max(r.mark, p.Raises())
	}
	if e.Kind == history.Read {
		e.Value = r.values[e.Resource]
	} else {
		r.values[e.Resource] = e.Value
	}
}
