package sqllock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"leasehold/engine"
	"leasehold/internal/coalesce"
)

// Sharer is a [Database] in which Joins and Leaves of many concurrent callers share a
// statement, and so a commit.
type Sharer interface {
	Database

	// Share carries out calls, each of another name, in one transaction. It waits for no
	// row that somebody else has locked. It answers what was as simple as a Join of a free
	// name and a Leave of the only claim of its name, with the call's place. A call without
	// an answer has changed nothing, and is then made alone. An error means that nothing was
	// learned.
	Share(ctx context.Context, calls []Call, answer func(place int, c engine.Claim)) error
}

// Call is a caller's Join, or its Leave of the claim with that name and ID.
type Call struct {
	*engine.Request
	Leave bool
}

// result is what a call was answered. Alone: it is to be made by itself.
type result struct {
	claim engine.Claim
	err   error
	alone bool
}

const (
	// enough is how many calls share a statement at most, so that the server works on some
	// while this process makes the next. Two such statements may be under way.
	enough, senders = 32, 2

	// shareBound is how long a shared statement may take. It waits for nobody, so a
	// server that takes longer hangs.
	shareBound = 10 * time.Second

	// sharePatience is when others go beside it. Perhaps only its connection hangs: what
	// stands between may let nothing pass any more, and say nothing. A Join's own bound
	// is three times that.
	sharePatience = time.Second
)

// share lets calls share statements, where the database can. As long as each call finds a
// connection, none does.
func (e *Engine) share(s Sharer) {
	e.group = &coalesce.Group[Call, result]{
		Alone: e.alone, Many: max(cap(e.capacity), senders) + 1,
		Send: func(calls []Call) []result { return e.together(s, calls) }, Most: enough, Senders: senders, Patience: sharePatience,
		Key: func(c Call) string { return c.Name },
	}
}

// call makes a call, with others if there are many.
func (e *Engine) call(ctx context.Context, c Call) (engine.Claim, error) {
	if e.group == nil || !c.Leave && c.Replaces != (engine.ID{}) {
		r := e.alone(ctx, c)
		return r.claim, r.err
	}
	// A call whose caller has gone may be carried out: whoever gave up on a Join leaves
	// that claim, and to leave twice is no harm.
	r, err := e.group.Do(ctx, c)
	switch {
	case err != nil:
		return engine.Claim{}, err
	case r.alone:
		r = e.alone(ctx, c)
	}
	return r.claim, r.err
}

// alone makes one call by itself.
func (e *Engine) alone(ctx context.Context, c Call) (r result) {
	if r.err = e.capacity.enter(ctx); r.err != nil {
		return r
	}
	defer e.capacity.leave()
	if !c.Leave {
		r.claim, r.err = e.join(ctx, c.Request)
		return r
	}
	cs, err := e.batch(ctx, []engine.Renewal{{Name: c.Name, ID: c.ID}})
	if r.err = err; len(cs) == 1 {
		r.claim = cs[0]
	}
	return r
}

// together makes many calls by one statement.
func (e *Engine) together(s Sharer, calls []Call) []result {
	results := make([]result, len(calls))
	ctx, cancel := context.WithTimeout(context.Background(), shareBound)
	defer cancel()
	err := e.capacity.enter(ctx)
	if err == nil {
		defer e.capacity.leave()
		for i := range results {
			results[i].alone = true
		}
		err = s.Share(ctx, calls, func(place int, c engine.Claim) {
			results[place] = result{claim: c, err: sound(&c)}
		})
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			// It stays a time-out to whoever looks for the cause, as that of a call alone.
			err = fmt.Errorf("no answer in %v to a statement that %d callers share: the server hangs, or no connection to it was free; ask again: %w", shareBound, len(calls), err)
		}
	}
	if err != nil {
		for i := range results {
			results[i] = result{err: err}
		}
	}
	return results
}
