package ui

import (
	"errors"
	"net/http"
	"strings"

	"leasehold/internal/view"
)

// maxLines bounds the lines of a reason.
const maxLines = 500

type whyBody struct {
	Name  string
	Text  string
	More  int // lines that are left out
	Cycle bool
	Do    string
	Free  bool
}

// why shows why a name is not free, in the words of "leasehold why".
func (h *Handler) why(r *http.Request, v *visit) (*answer, error) {
	name := r.URL.Query().Get("name")
	if name == "" {
		return nil, &refusal{http.StatusBadRequest, errors.New("the address has no name: add ?name=NAME, or begin at the overview")}
	}
	if err := h.showsWaiters(); err != nil {
		return nil, err
	}
	q, err := h.queueOf(r, v, name)
	if err != nil {
		return nil, err
	}
	if v.shot.cut {
		return nil, &refusal{http.StatusNotImplemented, errors.New("the engine has too many names to follow them here: ask the engine itself (leasehold why)")}
	}
	p := v.shot.only(&v.Rights)
	if _, there := p.snap.ByName[name]; !there {
		p = p.with(q) // the right to lock a name is enough to read its queue
	}
	why := p.snap.Why(name)
	lines := strings.SplitAfter(strings.TrimSuffix(why.Text(view.QuoteName, view.Printable), "\n"), "\n")
	b := &whyBody{Name: name, Cycle: why.Cycle(), Free: len(why.Holders) == 0, Do: adviceFor(p, name)}
	if b.More = max(0, len(lines)-maxLines); b.More > 0 {
		lines = lines[:maxLines]
	}
	b.Text = strings.Join(lines, "")
	return &answer{page: "why", title: "Why is " + view.QuoteName(name) + " not free?", body: b}, nil
}

// showsWaiters says why nobody can tell who waits for whom, or nil.
func (h *Handler) showsWaiters() error {
	if h.o.Source.Guarantees().SeesWaiters {
		return nil
	}
	return &refusal{http.StatusNotImplemented, errors.New("this engine does not show who waits: choose one that does")}
}
