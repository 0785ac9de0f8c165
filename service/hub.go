package service

import (
	"context"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/mailbox"
)

// hub hands the engine's notifications to those who wait for them. What it knows of claims
// is only that: a notification that finds nobody is lost, and its caller polls.
type hub struct {
	now func() time.Duration

	mu      sync.Mutex
	by      map[place]route
	boxes   map[string]*mailbox.Box // of the clients of httplock whose Watch is open
	waiters map[*waiter]struct{}    // requests that wait here
}

// place is a claim in the queue of its name. An ID alone is none: a caller may use one ID
// under many names, and each is a claim.
type place struct {
	name string
	id   engine.ID
}

// route is where notifications of a claim go, and who asked for it.
type route struct {
	client string  // of httplock, or
	waiter *waiter // the latest of the requests that wait for it
	until  time.Duration
	over   func() // counts the claim out
}

func newHub(now func() time.Duration) *hub {
	return &hub{now: now, by: map[place]route{}, boxes: map[string]*mailbox.Box{}, waiters: map[*waiter]struct{}{}}
}

// expect has notifications of a claim sent to a client for as long as the claim may last.
// over is called once, when it may have ended, and not if the hub knows the claim already.
func (h *hub) expect(at place, client string, ttl time.Duration, over func()) (fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.by[at]
	r := route{client: client, waiter: old.waiter, until: max(old.until, h.now()+ttl), over: over}
	fresh = old.over == nil // a request that waits is counted elsewhere
	if !fresh {
		r.over = old.over
	}
	h.by[at] = r
	return fresh
}

// forget ends what expect began.
func (h *hub) forget(places ...place) {
	var over []func()
	h.mu.Lock()
	for _, at := range places {
		if r, ok := h.by[at]; ok {
			over = append(over, r.over)
			if r.over = nil; r.waiter == nil {
				delete(h.by, at)
			} else {
				h.by[at] = route{waiter: r.waiter}
			}
		}
	}
	h.mu.Unlock()
	for _, f := range over {
		if f != nil {
			f()
		}
	}
}

// wait has notifications of a claim sent to a request, until stop is called. Several requests
// may wait for one claim, by its key.
func (h *hub) wait(w *waiter) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters[w] = struct{}{}
	r := h.by[w.at] // a client of httplock may have the claim too
	w.older, r.waiter = r.waiter, w
	h.by[w.at] = r
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.waiters, w)
		r := h.by[w.at]
		for at := &r.waiter; *at != nil; at = &(*at).older {
			if *at == w {
				*at = w.older
				break
			}
		}
		if h.by[w.at] = r; r.waiter == nil && r.over == nil {
			delete(h.by, w.at)
		}
	}
}

// waits reports whether a request waits here for a claim.
func (h *hub) waits(at place) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.by[at].waiter != nil
}

// open is the box of a client's Watch. The box of an earlier Watch of that client gets
// nothing more.
func (h *hub) open(client string) (box *mailbox.Box, stop func()) {
	box = mailbox.New()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.boxes[client] = box
	return box, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.boxes[client] == box {
			delete(h.boxes, client)
		}
	}
}

// changed takes a notification from the engine. It never blocks.
func (h *hub) changed(c engine.Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.ID == (engine.ID{}) { // notifications may have been lost
		for _, box := range h.boxes {
			box.PostAll()
		}
		for w := range h.waiters {
			w.wake()
		}
		return
	}
	r := h.by[place{c.Name, c.ID}]
	for w := r.waiter; w != nil; w = w.older {
		w.wake()
	}
	if box := h.boxes[r.client]; box != nil {
		box.Post(c)
	}
}

// sweep forgets claims that nobody renews, until ctx ends.
func (h *hub) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var ended []place
		h.mu.Lock()
		now := h.now()
		for at, r := range h.by {
			if r.over != nil && now >= r.until { // what only a waiting request has ends with that
				ended = append(ended, at)
			}
		}
		h.mu.Unlock()
		h.forget(ended...)
	}
}

// sweepEvery is how often the hub looks for claims that have ended: what it keeps of one
// that was not given back stays for the claim's TTL and as long.
const sweepEvery = 2 * time.Second

// knows reports whether the hub has learned of a claim.
func (h *hub) knows(at place) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.by[at]
	return ok
}
