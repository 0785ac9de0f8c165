package ui

import (
	"time"

	"leasehold/engine"
	"leasehold/internal/view"
)

const (
	maxEvents = 5000 // that are kept of all names
	maxLosses = 500  // that are kept longer
	maxGaps   = 50

	// lately is how long a loss counts in the overview.
	lately = 15 * time.Minute

	// slack is between the clock of the engine and that of this process, while a picture is
	// taken: a claim that had so little left at its end ran out.
	slack = 100 * time.Millisecond
)

// kind is what happened.
type kind string

const (
	waits    kind = "waits"
	granted  kind = "granted"
	marked   kind = "revoked, still held"
	released kind = "released"
	expired  kind = "lost: its time ran out"
	revoked  kind = "lost: revoked"
	left     kind = "stopped waiting"
)

// event is a change between two pictures.
type event struct {
	From, At time.Time // of the two pictures
	Kind     kind
	Claim    engine.Claim
}

// Lost reports whether a holder lost its claim.
func (e *event) Lost() bool { return e.Kind == expired || e.Kind == revoked }

// Wide reports whether the two pictures are so far apart that both times matter.
func (e *event) Wide() bool { return e.At.Sub(e.From) > 5*time.Second }

// gap is a time in which nobody looked.
type gap struct{ From, To time.Time }

// history is what this process saw.
type history struct {
	began  time.Time
	whole  time.Time // until then a name may have changed beyond a picture that was cut
	events ring
	losses ring
	gaps   []gap
	ended  map[view.Key]*revocation // that are revoked here, until they are seen to go
	grants []grants                 // of the last seconds
}

type grants struct {
	from, to time.Time
	names    []string // one for each
}

// ring keeps the newest events.
type ring struct {
	all  []event
	next int
	most int
}

func (r *ring) add(e event) {
	if len(r.all) < r.most {
		r.all = append(r.all, e)
		return
	}
	r.all[r.next] = e
	r.next = (r.next + 1) % len(r.all)
}

// full reports whether older events may be gone.
func (r *ring) full() bool { return len(r.all) > 0 && len(r.all) >= r.most }

// newest goes from the newest event to the oldest, while f says so.
func (r *ring) newest(f func(*event) bool) {
	for i := range r.all {
		if !f(&r.all[(r.next-1-i+2*len(r.all))%len(r.all)]) {
			return
		}
	}
}

// revocation is of one claim, by one caller or several.
type revocation struct {
	asking int  // the engine has not answered so many
	worked bool // it has ended the claim for one
}

// revokes notes that somebody is about to end a claim here.
func (h *history) revokes(k view.Key) {
	if h.ended == nil || len(h.ended) >= maxEvents {
		h.ended = map[view.Key]*revocation{}
	}
	r := h.ended[k]
	if r == nil {
		r = &revocation{}
		h.ended[k] = r
	}
	r.asking++
}

// revoked notes what the engine has answered. Whoever did not end the claim is not why it
// ends, unless somebody else has ended it here. A claim that its holder releases while the
// engine is asked to revoke it counts as revoked if it is read before the answer: nobody can
// tell them apart.
func (h *history) revoked(k view.Key, worked bool) {
	r := h.ended[k]
	if r == nil {
		return // it was seen to go
	}
	r.asking--
	r.worked = r.worked || worked
	if r.asking == 0 && !r.worked {
		delete(h.ended, k)
	}
}

// gap notes that nobody looked. What was there before is not compared.
func (h *history) gap(before, now *picture) {
	from, to := before.at, now.at
	h.seen(before, now)
	h.grants = nil
	if h.gaps = append(h.gaps, gap{from, to}); len(h.gaps) > maxGaps {
		h.began = h.gaps[0].To // nobody could tell any more that it is one
		h.gaps = h.gaps[1:]
	}
}

// since is when the history begins: its events and gaps are all that there were since.
func (h *history) since() time.Time {
	if h.events.full() {
		if oldest := h.events.all[h.events.next].At; oldest.After(h.began) {
			return oldest
		}
	}
	return h.began
}

// seen notes until when a name may have changed beyond a picture that was cut.
func (h *history) seen(before, now *picture) {
	if before.cut || now.cut {
		h.whole = now.at
	}
}

// note compares two pictures. What is beyond the names of one that is cut may be there or not.
func (h *history) note(before, now *picture) {
	h.events.most, h.losses.most = maxEvents, maxLosses
	h.seen(before, now)
	var names []string
	add := func(k kind, c engine.Claim) {
		e := event{From: before.at, At: now.at, Kind: k, Claim: c}
		h.events.add(e)
		if e.Lost() {
			h.losses.add(e)
		}
		if k == granted {
			names = append(names, c.Name)
		}
	}
	for _, q := range now.snap.Queues {
		if old, there := before.snap.ByName[q.Name]; (there || !before.cut) && !same(old, q) {
			h.compare(before, now, old, q, add)
		}
	}
	for _, q := range before.snap.Queues {
		if _, there := now.snap.ByName[q.Name]; !there && !now.cut {
			h.compare(before, now, q, engine.Queue{}, add)
		}
	}
	h.grants = append(h.grants, grants{before.at, now.at, names})
	for len(h.grants) > 1 && now.at.Sub(h.grants[0].from) > rateOver {
		h.grants = h.grants[1:]
	}
}

func (h *history) compare(before, now *picture, a, b engine.Queue, add func(kind, engine.Claim)) {
	was := make(map[uint64]engine.Claim, len(a.Claims))
	for _, c := range a.Claims {
		was[c.Ticket] = c
	}
	is := make(map[uint64]bool, len(b.Claims))
	for _, c := range b.Claims {
		is[c.Ticket] = true
	}
	for _, c := range a.Claims {
		k := view.Key{Name: c.Name, Ticket: c.Ticket}
		switch {
		case is[c.Ticket]:
			continue
		case c.State != engine.Held:
			add(left, c)
		case c.Revoked || h.ended[k] != nil:
			add(revoked, c)
		case c.TTL != 0 && c.TTL <= now.at.Sub(before.at)+slack:
			add(expired, c)
		default:
			add(released, c)
		}
		delete(h.ended, k)
	}
	for _, c := range b.Claims {
		old, there := was[c.Ticket]
		switch {
		case c.State == engine.Held && (!there || old.State != engine.Held):
			add(granted, c)
		case c.State == engine.Waiting && !there:
			add(waits, c)
		}
		if c.Revoked && !old.Revoked {
			add(marked, c)
		}
	}
}

// rateOver is the time over which hand-overs are counted.
const rateOver = 10 * time.Second

func (h *history) rate(keep func(name string) bool) float64 {
	n, over := 0, time.Duration(0)
	for _, g := range h.grants {
		for _, name := range g.names {
			if keep(name) {
				n++
			}
		}
		over += g.to.Sub(g.from)
	}
	if over <= 0 {
		return 0
	}
	return float64(n) / over.Seconds()
}

func (h *history) last(keep func(*event) bool, most int) (all []event) {
	h.events.newest(func(e *event) bool {
		if keep(e) {
			all = append(all, *e)
		}
		return len(all) < most
	})
	return all
}

func (h *history) lostLast(keep func(*event) bool, since time.Time, most int) (all []event) {
	h.losses.newest(func(e *event) bool {
		if e.At.After(since) && keep(e) {
			all = append(all, *e)
		}
		return len(all) < most && e.At.After(since)
	})
	return all
}

func (h *history) lostBy(since time.Time) map[string]int {
	by := map[string]int{}
	h.losses.newest(func(e *event) bool {
		if e.At.After(since) {
			by[e.Claim.Name]++
		}
		return e.At.After(since)
	})
	return by
}
