package ui

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
)

// Nothing is drawn that was not seen: what came or went in a gap has no event.
func TestATimelineDrawsWhatWasSeen(t *testing.T) {
	base := time.Now()
	at := func(minute int) time.Time { return base.Add(time.Duration(minute) * time.Minute) }
	happened := func(minute int, k kind, ticket uint64) event {
		return event{From: at(minute), At: at(minute), Kind: k, Claim: engine.Claim{Name: "a", Ticket: ticket}}
	}
	held := func(ticket uint64) engine.Claim { return engine.Claim{Name: "a", Ticket: ticket, State: engine.Held} }
	waiting := func(ticket uint64) engine.Claim {
		return engine.Claim{Name: "a", Ticket: ticket, State: engine.Waiting}
	}
	looked := []gap{{at(20), at(40)}} // but for then
	for _, c := range []struct {
		what   string
		events []event // the newest first
		claims []engine.Claim
		began  int
		gaps   []gap
		want   string // by ticket
	}{
		{"one went in a gap and another came", []event{happened(0, granted, 1)}, []engine.Claim{held(2)}, 0, looked, "holds 0-20, holds 40-60"},
		{"one was granted in a gap", []event{happened(10, waits, 2), happened(0, granted, 1)}, []engine.Claim{held(2)}, 0, looked, "holds 0-20, waits 10-40 holds 40-60"},
		{"one was there before and after", []event{happened(0, granted, 1)}, []engine.Claim{held(1), waiting(2)}, 0, looked, "holds 0-60, waits 40-60"},
		{"one was granted in a gap and released", []event{happened(50, released, 1), happened(0, waits, 1)}, nil, 0, looked, "waits 0-40 holds 40-50"},
		{"one came in a gap and went", []event{happened(50, left, 2), happened(45, expired, 1)}, nil, 0, looked, "holds 40-45, waits 40-50"},
		{"one came in a gap and was revoked", []event{happened(50, marked, 2), happened(0, granted, 1)}, []engine.Claim{held(2)}, 0, looked, "holds 0-20, holds 40-60"},
		{"two gaps", []event{happened(30, granted, 1)}, []engine.Claim{held(2)}, 0, []gap{{at(10), at(20)}, {at(35), at(40)}, {at(45), at(50)}}, "holds 30-35, holds 50-60"},
		{"the start is not kept", []event{happened(40, released, 1)}, []engine.Claim{held(2)}, 30, nil, "holds 30-40, holds 30-60"},
		{"the end is in no gap", []event{happened(30, granted, 2), happened(0, granted, 1)}, []engine.Claim{held(1)}, 0, nil, "holds 0-60, holds 30-30"},
	} {
		l := lanesOf(c.events, engine.Queue{Name: "a", Claims: c.claims}, at(c.began), c.gaps, at(60))
		first := at(60)
		for _, e := range strings.FieldsFunc(c.want, func(r rune) bool { return r == ' ' || r == ',' }) {
			var from, to int
			if n, _ := fmt.Sscanf(e, "%d-%d", &from, &to); n == 2 && at(from).Before(first) {
				first = at(from)
			}
		}
		minute := func(x int) int { // that is drawn there
			return int(at(60).Sub(first).Minutes()*float64(x-laneLeft)/laneWide+0.5) + int(first.Sub(base).Minutes())
		}
		var got []string
		for _, v := range l.Lanes {
			var spans []string
			if v.WaitW > 0 {
				spans = append(spans, fmt.Sprintf("waits %d-%d", minute(v.WaitX), minute(v.WaitX+v.WaitW)))
			}
			if v.HoldW > 0 {
				spans = append(spans, fmt.Sprintf("holds %d-%d", minute(v.HoldX), minute(v.HoldX+v.HoldW)))
			}
			got = append(got, strings.Join(spans, " "))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

func TestATimelineCanBeLong(t *testing.T) {
	now := time.Now()
	for _, days := range []time.Duration{1, 196, 20 * 365} {
		whole := days * 24 * time.Hour
		events := []event{{At: now.Add(-whole / 2), Kind: waits, Claim: engine.Claim{Ticket: 2}}, {At: now.Add(-whole), Kind: granted, Claim: engine.Claim{Ticket: 1}}}
		q := engine.Queue{Claims: []engine.Claim{{Ticket: 1, State: engine.Held}, {Ticket: 2, State: engine.Waiting}}}
		l := lanesOf(events, q, now.Add(-whole), nil, now)
		if a, b := l.Lanes[0], l.Lanes[1]; a.HoldX != laneLeft || a.HoldW != laneWide || b.WaitX != laneLeft+laneWide/2 || b.WaitX+b.WaitW != laneLeft+laneWide {
			t.Errorf("of %d days: %+v", days, l.Lanes)
		}
	}
}

// A history that has dropped something begins after that.
func TestAHistoryBeginsWithWhatIsKept(t *testing.T) {
	base := time.Now()
	at := func(minute int) time.Time { return base.Add(time.Duration(minute) * time.Minute) }
	all := func(*event) bool { return true }
	f := newFeed(nil, time.Second, slog.New(slog.DiscardHandler))
	f.past.began = at(0)
	f.past.gap(&picture{at: at(1)}, &picture{at: at(2)})
	before := newPicture(nil, nil)
	for i := range 3 { // each has half of the events that are kept
		var queues []engine.Queue
		for j := range maxEvents / 2 {
			name := fmt.Sprintf("%d/%04d", i, j)
			queues = append(queues, engine.Queue{Name: name, Claims: []engine.Claim{{Name: name, Ticket: 1, State: engine.Held}}})
		}
		now := newPicture(append(before.snap.Queues, queues...), before)
		before.at, now.at = at(10*i), at(10*i+10)
		f.past.note(before, now)
		before = now
		_, gaps, began, _ := f.history(all, 1)
		if want := at(10 * max(1, i)); i > 0 && !began.Equal(want) || i == 0 && !began.Equal(at(0)) {
			t.Errorf("after %d pictures it begins at %v", i+1, began.Sub(base))
		}
		if want := 1; i == 0 && len(gaps) != want || i == 2 && len(gaps) != 0 {
			t.Errorf("after %d pictures: gaps %v", i+1, gaps)
		}
	}
	f = newFeed(nil, time.Second, slog.New(slog.DiscardHandler))
	for i := range maxGaps + 1 {
		f.past.gap(&picture{at: at(10 * i)}, &picture{at: at(10*i + 5)})
	}
	if _, gaps, began, _ := f.history(all, 1); len(gaps) != maxGaps || !began.Equal(at(5)) {
		t.Errorf("%d gaps, and it begins at %v", len(gaps), began.Sub(base))
	}
}

// A name beyond those of a picture may be there or not.
func TestWhatIsBeyondACutPictureIsNoEvent(t *testing.T) {
	of := func(name string) engine.Queue {
		return engine.Queue{Name: name, Claims: []engine.Claim{{Name: name, Ticket: 1, State: engine.Held}}}
	}
	for _, c := range []struct {
		before, now bool // is cut
		want        string
	}{
		{false, false, "granted b, released a"},
		{true, false, "released a"},
		{false, true, "granted b"},
		{true, true, ""},
	} {
		before, now := newPicture([]engine.Queue{of("a"), of("c")}, nil), newPicture([]engine.Queue{of("b"), of("c")}, nil)
		before.cut, now.cut = c.before, c.now
		before.at, now.at = time.Unix(1, 0), time.Unix(2, 0)
		h := &history{}
		h.note(before, now)
		if since := h.whole == now.at; since != (c.before || c.now) {
			t.Errorf("cut before (%v), now (%v): all of it was seen since %v", c.before, c.now, h.whole)
		}
		var got []string
		for _, e := range h.last(func(*event) bool { return true }, 10) {
			got = append([]string{string(e.Kind) + " " + e.Claim.Name}, got...)
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("cut before (%v), now (%v): %q, want %q", c.before, c.now, got, c.want)
		}
	}
}
