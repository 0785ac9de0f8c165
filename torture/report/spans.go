package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"leasehold/torture/history"
)

// Span is a time on the picture, in milliseconds since the beginning.
type Span struct {
	From   float64 `json:"f"`
	To     float64 `json:"t"`
	Lane   int     `json:"l"` // spans of one lane do not overlap
	Client string  `json:"c,omitempty"`
	Text   string  `json:"x"`
	Class  string  `json:"k,omitempty"` // of a hold: exclusive, shared, permits; of a fault: bit, missed

	// Proven is from the first to the last mark of a hold.
	ProvenFrom float64 `json:"pf,omitempty"`
	ProvenTo   float64 `json:"pt,omitempty"`
}

// Row is one name, with who held it and who waited for it.
type Row struct {
	Name  string `json:"name"`
	Holds []Span `json:"holds"`
	Waits []Span `json:"waits"`
}

// picture is what the page draws.
type picture struct {
	End    float64 `json:"end"`
	Rows   []Row   `json:"rows"`
	Faults []Span  `json:"faults"`
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// hold is a lease while the history is read.
type hold struct {
	Span
	name string
	over bool
}

// draw makes the picture of a history.
func draw(events []history.Event) picture {
	var p picture
	rows := map[string]*Row{}
	var names []string
	row := func(name string) *Row {
		if rows[name] == nil {
			rows[name] = &Row{Name: name}
			names = append(names, name)
		}
		return rows[name]
	}
	calls := map[int64]history.Event{}
	holds := map[int64]*hold{}
	var order []int64
	faults := map[int]*Span{}
	var struck []int
	last := ms(events[len(events)-1].At)
	end := func(op int64, at float64, why string) {
		if h := holds[op]; h != nil && !h.over {
			h.over, h.To = true, at
			h.Text += ", " + why
		}
	}
	for _, e := range events {
		at := ms(e.At)
		switch e.Kind {
		case history.Call:
			calls[e.Op] = e
			switch e.What {
			case history.Unlock, history.Detach:
				end(e.Of, at, e.What)
			}
		case history.Answer:
			call, found := calls[e.Op]
			delete(calls, e.Op)
			if !found {
				continue
			}
			switch call.What {
			case history.Lock, history.Try, history.Adopt:
				if call.What == history.Lock {
					row(call.Name).Waits = append(row(call.Name).Waits, Span{From: ms(call.At), To: at, Client: e.Client, Text: call.What + ": " + e.Result})
				}
				if e.Result == history.OK {
					holds[e.Op] = &hold{Span: Span{From: at, To: last, Client: e.Client, Class: mode(call), Text: mode(call)}, name: call.Name}
					order = append(order, e.Op)
				}
			}
		case history.Mark:
			if h := holds[e.Op]; h != nil {
				if h.ProvenFrom == 0 {
					h.ProvenFrom = at
				}
				h.ProvenTo = at
			}
		case history.Lost:
			end(e.Op, at, "lost: "+e.Error)
		case history.Exit:
			for op, h := range holds {
				if h.Client == e.Client {
					end(op, at, "its client ended")
				}
			}
			for op, call := range calls {
				if call.Client == e.Client {
					delete(calls, op)
					if call.What == history.Lock {
						row(call.Name).Waits = append(row(call.Name).Waits, Span{From: ms(call.At), To: at, Client: e.Client, Text: "its client ended"})
					}
				}
			}
		case history.Strike:
			s := Span{From: at, To: last, Client: e.Client, Class: "missed", Text: e.Named}
			for _, more := range []string{e.Client, e.Target} {
				if more != "" {
					s.Text += ", " + more
				}
			}
			faults[e.Fault] = &s
			struck = append(struck, e.Fault)
		case history.Bit:
			if s := faults[e.Fault]; s != nil {
				s.Class = "bit"
				s.Text += ": " + e.Error
			}
		case history.Heal:
			if s := faults[e.Fault]; s != nil {
				s.To = at
			}
		}
	}
	// These calls never returned: the history was cut short, perhaps because they hang.
	for _, op := range slices.Sorted(maps.Keys(calls)) {
		if call := calls[op]; call.What == history.Lock {
			row(call.Name).Waits = append(row(call.Name).Waits, Span{From: ms(call.At), To: last, Client: call.Client, Text: call.What + ": no answer"})
		}
	}
	for _, op := range order {
		h := holds[op]
		row(h.name).Holds = append(row(h.name).Holds, h.Span)
	}
	slices.Sort(names)
	for _, name := range names {
		r := rows[name]
		stack(r.Holds)
		stack(r.Waits)
		p.Rows = append(p.Rows, *r)
	}
	for _, n := range struck {
		p.Faults = append(p.Faults, *faults[n])
	}
	p.End = last
	return p
}

// stack gives each span a lane in which it is alone.
func stack(spans []Span) {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	var free []float64 // by lane: when its last span ends
	for i := range spans {
		s := &spans[i]
		lane := slices.IndexFunc(free, func(at float64) bool { return at <= s.From })
		if lane < 0 {
			lane, free = len(free), append(free, 0)
		}
		s.Lane, free[lane] = lane, s.To
	}
}

// mode is the kind of a hold.
func mode(call history.Event) string {
	switch {
	case call.What == history.Adopt:
		return "adopted"
	case call.Permits == call.Limit:
		return "exclusive"
	case call.Permits == 1 && call.Limit == 1<<31-1:
		return "shared"
	}
	return "permits"
}
