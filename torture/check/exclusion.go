package check

import (
	"fmt"

	"leasehold/torture/history"
)

// exclusion: at no moment may the permits of leases that are certainly valid exceed the
// limit.
func (t *trial) exclusion(name string) {
	t.judged[Exclusion] += len(t.holds[name])
	sweep(t.holds[name], func(h *hold) span { return h.sure }, func(h *hold, open []*hold) {
		if t.full(Exclusion) {
			return
		}
		other := t.rival(h, open)
		from := max(h.sure.start, other.sure.start)
		f := Finding{
			Property: Exclusion, At: from, Declared: t.cause(from),
			Lines: lines(other.sure.from, other.sure.to, h.sure.from, h.sure.to),
			Text: fmt.Sprintf("%s was valid from %s to %s, and %s from %s to %s: they overlap for %s",
				other.describe(), clock(other.sure.start), clock(other.sure.end),
				h.describe(), clock(h.sure.start), clock(h.sure.end), overlap(h.sure, other.sure)),
		}
		if len(open) > 1 && !conflict(h.op, other.op) {
			f.Text = fmt.Sprintf("%s began at %s while %s were valid: %d permits of %d",
				h.describe(), clock(from), plural(len(open), "lease", "leases"), permits(h, open), h.limit)
			proof := []int{h.sure.from, h.sure.to}
			for _, o := range open {
				proof = append(proof, o.sure.from, o.sure.to)
			}
			f.Lines = lines(proof...)
		}
		t.report(f, name)
	})
}

// honesty: an Unlock that says OK says that the lease was valid from its answer to the call
// of Unlock. Nobody else's lease was valid in between.
func (t *trial) honesty(name string) {
	wide := func(h *hold) span {
		if h.said.exists() {
			return h.said
		}
		return h.sure
	}
	for _, h := range t.holds[name] {
		if h.said.exists() {
			t.judged[Honesty]++
		}
	}
	sweep(t.holds[name], wide, func(h *hold, open []*hold) {
		if t.full(Honesty) {
			return
		}
		liar, victim := h, t.rival(h, open)
		if !liar.said.exists() {
			liar, victim = t.liar(h, open), h
		}
		if liar == nil {
			return // none of them was unlocked with OK
		}
		from := max(wide(liar).start, wide(victim).start)
		what := "was valid"
		if victim.said.exists() {
			what = "was valid too, as its own Unlock says,"
		}
		f := Finding{
			Property: Honesty, At: from, Declared: t.cause(from),
			Text: fmt.Sprintf("Unlock says that %s was valid until %s, but %s %s from %s to %s",
				liar.describe(), clock(liar.said.end), victim.describe(), what, clock(wide(victim).start), clock(wide(victim).end)),
		}
		proof := []int{liar.said.from, liar.said.to, liar.unlocked(), wide(victim).from, wide(victim).to}
		if !conflict(liar.op, victim.op) {
			f.Text += fmt.Sprintf(": %d permits of %d", permits(h, open), h.limit)
			for _, o := range open {
				proof = append(proof, wide(o).from, wide(o).to)
			}
		}
		f.Lines = lines(proof...)
		t.report(f, name)
	})
}

// unlocked is the answer of the Unlock that says OK.
func (h *hold) unlocked() int {
	for _, o := range h.handles {
		if e := o.ending; e != nil && e.what == history.Unlock && e.result == history.OK {
			return e.answer
		}
	}
	return -1
}

// rival is one of the open holds that proves that h is too much: one that conflicts with it,
// or else the last.
func (t *trial) rival(h *hold, open []*hold) *hold {
	for _, o := range open {
		if conflict(h.op, o.op) {
			return o
		}
	}
	return open[len(open)-1]
}

// liar is one of the open holds whose Unlock says what h disproves. Nil: there is none. Where
// one of them alone conflicts with h, such a one, and else any: together they are too many.
func (t *trial) liar(h *hold, open []*hold) *hold {
	pair := conflict(h.op, t.rival(h, open).op)
	for _, o := range open {
		if o.said.exists() && (!pair || conflict(h.op, o.op)) {
			return o
		}
	}
	return nil
}

func permits(h *hold, open []*hold) int64 {
	sum := int64(h.permits)
	for _, o := range open {
		sum += int64(o.permits)
	}
	return sum
}

func overlap(a, b span) string {
	return long(min(a.end, b.end) - max(a.start, b.start))
}
