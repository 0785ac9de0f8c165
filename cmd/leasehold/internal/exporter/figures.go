package exporter

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"leasehold/engine"
)

// figures are what one reading has seen.
type figures struct {
	prefixes []*sums
	worst    []worst
	waiters  bool // the engine shows who waits
}

// sums are the figures of one prefix.
type sums struct {
	prefix                     string
	names, contended           int
	holders, waiters, revoked  int
	oldestHolder, oldestWaiter time.Duration // since they asked, by their own clocks
	cut                        bool
}

// worst is a name with waiters.
type worst struct {
	name    string
	waiters int
	oldest  time.Duration
}

// read reads each name of the prefixes once.
func read(ctx context.Context, eng Engine, o *Options) (*figures, error) {
	f := &figures{waiters: eng.Guarantees().SeesWaiters}
	for _, p := range o.Prefixes {
		f.prefixes = append(f.prefixes, &sums{prefix: p})
	}
	now := time.Now()
	for _, root := range roots(o.Prefixes) {
		if err := f.readRoot(ctx, eng, o, root, now); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// roots are the prefixes that no other one covers, so that no name is read twice.
func roots(prefixes []string) (roots []string) {
	for _, p := range prefixes {
		covered := func(by string) bool { return by != p && strings.HasPrefix(p, by) }
		if !slices.ContainsFunc(prefixes, covered) {
			roots = append(roots, p)
		}
	}
	return roots
}

func (f *figures) readRoot(ctx context.Context, eng Engine, o *Options, root string, now time.Time) error {
	n := 0
	for q, err := range eng.Queues(ctx, root) {
		if err != nil {
			return err
		}
		if n == o.MaxNames {
			// Which names were left out depends on the engine.
			for _, s := range f.prefixes {
				s.cut = s.cut || strings.HasPrefix(s.prefix, root)
			}
			return nil
		}
		n++
		f.add(q, o.ByName, now)
	}
	return ctx.Err() // an engine may take the end of the context for the end of its names
}

// add counts a queue under each prefix that its name has.
func (f *figures) add(q engine.Queue, byName int, now time.Time) {
	one := sums{names: 1}
	for _, c := range q.Claims {
		age := time.Duration(0)
		if !c.Owner.Since.IsZero() {
			age = max(0, now.Sub(c.Owner.Since)) // a clock that is ahead of ours
		}
		if c.State != engine.Held {
			one.waiters++
			one.contended = 1
			one.oldestWaiter = max(one.oldestWaiter, age)
			continue
		}
		one.holders++
		one.oldestHolder = max(one.oldestHolder, age)
		if c.Revoked {
			one.revoked++
		}
	}
	for _, s := range f.prefixes {
		if strings.HasPrefix(q.Name, s.prefix) {
			s.add(one)
		}
	}
	if one.waiters > 0 {
		f.rank(worst{q.Name, one.waiters, one.oldestWaiter}, byName)
	}
}

func (s *sums) add(o sums) {
	s.names += o.names
	s.contended += o.contended
	s.holders += o.holders
	s.waiters += o.waiters
	s.revoked += o.revoked
	s.oldestHolder = max(s.oldestHolder, o.oldestHolder)
	s.oldestWaiter = max(s.oldestWaiter, o.oldestWaiter)
}

// rank keeps the names whose waiters have waited longest.
func (f *figures) rank(w worst, most int) {
	at, _ := slices.BinarySearchFunc(f.worst, w, func(a, b worst) int {
		return cmp.Or(cmp.Compare(b.oldest, a.oldest), cmp.Compare(b.waiters, a.waiters), cmp.Compare(a.name, b.name))
	})
	if at >= most {
		return
	}
	f.worst = slices.Insert(f.worst, at, w)
	f.worst = f.worst[:min(len(f.worst), most)]
}
