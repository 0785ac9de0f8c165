package sim

import "slices"

// enterLot and leaveLot: the user waits for its name.
func (u *user) enterLot() {
	l, w := u.lot, u.client.w
	u.at = len(l.waiting)
	l.waiting = append(l.waiting, u)
	if l.at < 0 {
		l.at = len(w.busy)
		w.busy = append(w.busy, l)
	}
}

func (u *user) leaveLot() {
	l, w := u.lot, u.client.w
	if l == nil || u.at >= len(l.waiting) || l.waiting[u.at] != u {
		return
	}
	last := l.waiting[len(l.waiting)-1]
	l.waiting[u.at], last.at = last, u.at
	l.waiting[len(l.waiting)-1] = nil
	l.waiting = l.waiting[:len(l.waiting)-1]
	if len(l.waiting) == 0 {
		other := w.busy[len(w.busy)-1]
		w.busy[l.at], other.at = other, l.at
		w.busy = w.busy[:len(w.busy)-1]
		l.at, l.unused, l.free = -1, nil, 0
	}
}

// left: a hold has ended.
func (l *lot) left(h *hold) {
	if i := slices.Index(l.holds, h); i >= 0 {
		l.holds = slices.Delete(l.holds, i, i+1)
	}
}
