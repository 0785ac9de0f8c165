package ui

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"leasehold/internal/view"
)

// perPage bounds the rows of an overview.
const perPage = 200

type overviewBody struct {
	Prefix, Sort string
	Counts       counts
	Rate         string
	Rows         []*row
	Found        int // rows of all pages
	From, To     int // of this page, counted from 1
	Before, Next int // numbers of pages; 0: there is none
	Lost         []event
	Lately       string
	SeesWaiters  bool
	Sorts        []sortLink
}

type sortLink struct{ Key, Text string }

// sorts are the ways to sort, in the order in which pages show them.
func sorts() []sortLink {
	return []sortLink{{"hurt", "what hurts"}, {"wait", "longest wait"}, {"many", "most waiters"}, {"lost", "lately lost"}, {"name", "name"}}
}

// overview shows the queues, those first whose callers suffer.
func (h *Handler) overview(r *http.Request, v *visit) (*answer, error) {
	q := r.URL.Query()
	p := v.shot.only(&v.Rights)
	b := &overviewBody{
		Prefix: q.Get("prefix"), Sort: q.Get("sort"), Counts: p.counted(), Rate: strconv.FormatFloat(h.feed.rate(v.look), 'f', 1, 64),
		Lately: long(lately), SeesWaiters: h.o.Source.Guarantees().SeesWaiters, Sorts: sorts(),
	}
	rows := p.rows()
	if b.Prefix != "" {
		rows = slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return !strings.HasPrefix(r.Name, b.Prefix) })
	}
	how, known := orders[b.Sort]
	if !known {
		b.Sort = "hurt"
	} else if b.Sort != "hurt" {
		rows = slices.Clone(rows)
		slices.SortFunc(rows, how)
	}
	page, _ := strconv.Atoi(q.Get("page"))
	last := max(1, (len(rows)+perPage-1)/perPage)
	page = min(max(page, 1), last)
	b.Found = len(rows)
	from := (page - 1) * perPage
	b.Rows = rows[from:min(from+perPage, len(rows))]
	b.From, b.To = from+1, from+len(b.Rows)
	if page > 1 {
		b.Before = page - 1
	}
	if page < last {
		b.Next = page + 1
	}
	b.Lost = h.feed.lost(func(e *event) bool {
		return strings.HasPrefix(e.Claim.Name, b.Prefix) && v.look(e.Claim.Name)
	}, time.Now().Add(-lately), 10)
	title := "Overview"
	if b.Prefix != "" {
		title = view.QuoteName(b.Prefix)
	}
	return &answer{page: "overview", title: title, body: b}, nil
}
