package deadlock

import (
	"cmp"
	"slices"

	"leasehold/engine"
)

const (
	MaxDepth  = 64                  // rounds of reading: more than the members of the longest cycle it finds
	MaxQueues = 256                 // queues read in one pass
	MaxClaims = 2 * engine.MaxQueue // claims in them
)

// Key is a queue: a name in one of the engines that the searcher knows, which it
// numbers as it likes from 0.
type Key struct {
	Engine int
	Name   string
}

// Verdict is what a search says of the claim that it is about.
type Verdict uint8

const (
	Wait   Verdict = iota // no cycle, or a bound was reached
	Other                 // part of a cycle, of which another claim is the victim
	Victim                // part of a cycle, and its victim
)

func (v Verdict) String() string { return [...]string{"wait", "other", "victim"}[v] }

// Step is one member of a cycle.
type Step struct {
	Claim  engine.Claim // who waits
	Behind uint64       // the ticket, in the queue of Claim.Name, of what it waits for: the next member has it
}

// Search is one pass for one claim that waits. Ask Next, Read what it says, until
// it says nothing; then ask for the Verdict.
type Search struct {
	engines int
	start   Key
	ticket  uint64
	again   bool
	only    map[id]engine.State // in a second pass: what the first one counted

	queues map[Key]*line
	asked  map[Key]bool
	claims int
	depth  int
	bound  bool // one was reached

	cycle set // of the verdict
}

type id struct {
	Key
	ticket uint64
}

// queue is one that was read, without claims that do not count.
type line struct {
	key     Key
	claims  []*claim
	tickets map[uint64]*claim
}

type claim struct {
	engine.Claim
	queue *line
	at    int // its index there
}

type set map[*claim]bool

// New is a search for the claim of that ticket, which waits in the queue start, by
// somebody who can read that many engines.
func New(engines int, start Key, ticket uint64) *Search {
	return &Search{engines: engines, start: start, ticket: ticket, queues: map[Key]*line{}, asked: map[Key]bool{}}
}

// Again is the second pass, after a Verdict other than Wait.
func (s *Search) Again() *Search {
	a := New(s.engines, s.start, s.ticket)
	a.again, a.only = true, map[id]engine.State{}
	for c := range s.cycle {
		for _, o := range append(s.held(c), c) {
			a.only[id{o.queue.key, o.Ticket}] = o.State
		}
		a.asked[c.queue.key] = false
	}
	return a
}

// Next is the queues to read next, in any order; none: the pass is over.
func (s *Search) Next() (keys []Key) {
	want := func(k Key) {
		if !s.asked[k] {
			s.asked[k] = true
			keys = append(keys, k)
		}
	}
	switch from := s.find(s.start, s.ticket); {
	case s.again:
		for k := range s.asked {
			want(k)
		}
	case s.depth == 0:
		want(s.start)
	case from == nil || from.State != engine.Waiting || s.bound:
	case s.depth == 1:
		// First what its own caller holds: see Hopeless.
		for _, h := range from.Owner.Holds {
			s.eachPlace(from, h, want)
		}
		if len(keys) > 0 {
			break
		}
		fallthrough
	default:
		for c := range s.blockedBy(from, nil) {
			for _, h := range c.Owner.Holds {
				s.eachPlace(c, h, want)
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	if s.depth++; s.depth > MaxDepth || len(s.asked) > MaxQueues {
		s.bound = true
		return nil
	}
	return keys
}

// Hopeless reports, once all queues that Next named were read, that nobody waits for
// what the claim's caller holds: then the claim is no victim, whatever the rest says.
// So a queue of many who hold what nobody wants costs each of them the queues of what it
// holds itself, and not of what all behind it hold.
func (s *Search) Hopeless() bool {
	from := s.find(s.start, s.ticket)
	if s.depth < 2 || from == nil {
		return false
	}
	for _, h := range s.held(from) {
		for _, f := range h.queue.claims[h.at+1:] {
			if f.State == engine.Waiting && conflict(h, f) {
				return false
			}
		}
	}
	return true
}

// Read takes in one queue. One that Next did not ask for counts as well.
func (s *Search) Read(k Key, l engine.Queue) {
	if s.claims += len(l.Claims); s.claims > MaxClaims {
		s.bound = true
		return
	}
	read := &line{key: k, claims: make([]*claim, 0, len(l.Claims)), tickets: make(map[uint64]*claim, len(l.Claims))}
	for i := range l.Claims {
		c := &claim{Claim: l.Claims[i], queue: read, at: len(read.claims)}
		c.Name = k.Name
		if s.counts(c) {
			read.claims = append(read.claims, c)
			read.tickets[c.Ticket] = c
		}
	}
	s.queues[k] = read
}

// counts: a revoked claim, or one whose time has run out, goes by itself, whatever
// its owner waits for. In a second pass only what the first one counted does.
func (s *Search) counts(c *claim) bool {
	if c.Revoked || c.TTL < 0 || c.State != engine.Waiting && c.State != engine.Held {
		return false
	}
	return s.only == nil || s.only[id{c.queue.key, c.Ticket}] == c.State
}

// Verdict is what the queues that were read say.
func (s *Search) Verdict() Verdict {
	s.cycle = nil
	from := s.find(s.start, s.ticket)
	if s.bound || from == nil || from.State != engine.Waiting {
		return Wait
	}
	// What is stuck because of claims outside of the cycle comes free when theirs
	// is broken: so the rest must be stuck by itself, and so on.
	for in := s.blockedBy(from, nil); ; {
		in = s.stuck(in)
		if !in[from] {
			return Wait
		}
		cycle := s.cycleOf(from, in)
		if len(cycle) == len(in) {
			s.cycle = cycle
			break
		}
		in = cycle
	}
	victim := s.victim()
	switch {
	case victim == nil:
		s.cycle = nil
		return Wait
	case compare(victim, from) == 0:
		return Victim
	}
	return Other
}

// Bounded reports whether a bound was reached: there may be a cycle that was not found.
func (s *Search) Bounded() bool { return s.bound }

// Cycle is the shortest way round from the claim that the search is about back to
// itself, after a Verdict other than Wait. The claim itself is first. A claim that was
// read through two clients of one engine is one step.
func (s *Search) Cycle() []Step {
	from := s.find(s.start, s.ticket)
	type visit struct {
		claim  *claim
		before int // in all
		behind uint64
	}
	seen, all := set{}, []visit{{claim: from}}
	names := s.namedBy(s.cycle)
	for i := 0; i < len(all); i++ {
		f := all[i].claim
		for _, c := range f.queue.claims[:f.at] {
			if !conflict(c, f) {
				continue
			}
			for _, next := range slices.Concat(names[c], []*claim{c}) {
				if !s.cycle[next] || seen[next] || next == f && len(s.cycle) > 1 {
					continue
				}
				seen[next] = true
				all = append(all, visit{next, i, c.Ticket})
				if next != from {
					continue
				}
				var steps []Step
				for at := len(all) - 1; at > 0; at = all[at].before {
					steps = append(steps, Step{all[all[at].before].claim.Claim, all[at].behind})
				}
				slices.Reverse(steps)
				same := func(a, b Step) bool { return compare(&claim{Claim: a.Claim}, &claim{Claim: b.Claim}) == 0 }
				steps = slices.CompactFunc(steps, same)
				if last := len(steps) - 1; last > 0 && same(steps[0], steps[last]) {
					steps = steps[:last]
				}
				return steps
			}
		}
	}
	return nil
}

// victim is the member of the cycle that gives up: the youngest of those who hold
// what another member waits for. One that holds nothing of that kind could leave
// without breaking anything. Where the cycle goes through several engines it is the
// youngest of those who hold across: the others need not know of the other engine,
// and one that cannot see the cycle would never give up.
func (s *Search) victim() (youngest *claim) {
	across := false // youngest is
	for c := range s.cycle {
		keeps, far := s.keepsOthers(c)
		if keeps && (youngest == nil || far && !across || far == across && compare(c, youngest) > 0) {
			youngest, across = c, far
		}
	}
	return youngest
}

// keepsOthers reports whether another member waits for what c holds, and whether for
// what it holds elsewhere. That is what c itself says, so it is the same for all who
// look, however they number their engines.
func (s *Search) keepsOthers(c *claim) (keeps, elsewhere bool) {
	for h, named := range s.holds(c) {
		for _, f := range h.queue.claims[h.at+1:] {
			if s.cycle[f] && (f != c || len(s.cycle) == 1) && conflict(h, f) {
				keeps, elsewhere = true, elsewhere || named.Elsewhere
			}
		}
	}
	return keeps, elsewhere
}

// compare is an order of all claims that is the same for everybody: see the package
// documentation. A claim that was read through two clients of one engine is one.
func compare(a, b *claim) int {
	if c := cmp.Or(cmp.Compare(a.Ticket, b.Ticket), cmp.Compare(a.Name, b.Name)); c != 0 {
		return c
	}
	return cmp.Compare(a.Owner.Text(), b.Owner.Text())
}
