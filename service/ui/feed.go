package ui

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/view"
)

const (
	// within bounds a reading, and late is when pages say that one does not end.
	within = 10 * time.Second
	late   = 2 * time.Second

	// maxPages bounds the pages that follow changes. The script of others asks every 5 s.
	maxPages = 2000

	// linger is how long the engine is read after the last page was closed or asked for, so
	// that the history has no gap when somebody goes from page to page.
	linger = 30 * time.Second

	// maxNames bounds the names of a picture. Pages say that there are more.
	maxNames = 100_000
)

// feed reads the engine for all pages. One goroutine does, in run.
type feed struct {
	src   Source
	every time.Duration
	log   *slog.Logger
	wake  chan struct{} // capacity 1: somebody wants a picture

	mu      sync.Mutex
	pages   int           // that follow changes
	wanted  time.Time     // when somebody last wanted a picture
	news    chan struct{} // closed and replaced when a reading ends, or is late
	shot    shot
	tried   time.Time // when the last reading that ended began
	running time.Time // when the reading that goes on began; zero: none does
	slept   bool      // nobody looked since the last picture
	past    history
	asked   map[string]*single
}

// shot is what is known at one moment.
type shot struct {
	*picture           // the last good one; never nil
	version  uint64    // rises whenever pages should look again
	away     time.Time // since when the engine does not answer; zero: it does
	why      string    // it does not
	over     bool      // run has ended: nothing is read any more
}

// single is the queue of one name that is in no picture.
type single struct {
	began time.Time
	done  chan struct{}
	queue engine.Queue
	err   error
}

func newFeed(src Source, every time.Duration, log *slog.Logger) *feed {
	return &feed{
		src: src, every: every, log: log, wake: make(chan struct{}, 1), news: make(chan struct{}), asked: map[string]*single{},
		// The version of another process, or of an earlier one, is another.
		shot: shot{picture: newPicture(nil, nil), version: uint64(time.Now().UnixMilli())},
	}
}

// run reads for as long as somebody wants it, until ctx ends.
func (f *feed) run(ctx context.Context) {
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.shot.over = true
		f.tell(true)
	}()
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	for ctx.Err() == nil {
		if f.idle() {
			select {
			case <-f.wake:
				f.mu.Lock()
				f.slept = true
				f.mu.Unlock()
				continue
			case <-ctx.Done():
				return
			}
		}
		began := time.Now()
		f.look(ctx)
		pause.Reset(max(f.every, time.Since(began)))
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

func (f *feed) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pages == 0 && time.Since(f.wanted) > linger
}

// want counts as a look at a page.
func (f *feed) want() {
	f.wanted = time.Now()
	select {
	case f.wake <- struct{}{}:
	default: // it is awake already
	}
}

// tell wakes all who follow. changed: what they show is old.
func (f *feed) tell(changed bool) {
	if changed {
		f.shot.version++
	}
	close(f.news)
	f.news = make(chan struct{})
}

// look is one reading.
func (f *feed) look(ctx context.Context) {
	began := time.Now()
	f.mu.Lock()
	f.running = began
	f.mu.Unlock()
	slow := time.AfterFunc(late, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.running.Equal(began) {
			f.away(began, fmt.Sprintf("a reading has not ended within %v", late))
		}
	})
	queues, cut, err := f.all(ctx)
	slow.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running, f.tried = time.Time{}, began
	switch {
	case ctx.Err() != nil: // nobody waits any more
	case err != nil:
		f.away(began, err.Error())
	default:
		p := newPicture(queues, f.shot.picture)
		p.cut, p.at, p.took = cut, time.Now(), time.Since(began)
		switch p.first = f.shot.picture.at.IsZero(); {
		case p.first:
			f.past.began = p.at
		case f.slept:
			f.past.gap(f.shot.picture, p)
		default:
			f.past.note(f.shot.picture, p)
		}
		f.slept = false
		p.lost = f.past.lostBy(p.at.Add(-lately))
		back := !f.shot.away.IsZero()
		if back {
			f.log.Info("pages: the engine answers again", "after", time.Since(f.shot.away))
		}
		f.shot.away, f.shot.why, f.shot.picture = time.Time{}, "", p
		f.tell(back || p.changed || p.first)
	}
}

func (f *feed) away(since time.Time, why string) {
	news := f.shot.away.IsZero() || f.shot.why != why
	if f.shot.away.IsZero() {
		f.shot.away = since
		f.log.Warn("pages: the engine does not answer", "error", why)
	}
	f.shot.why = why
	f.tell(news)
}

// all reads every queue, maxNames at most.
func (f *feed) all(ctx context.Context) (queues []engine.Queue, cut bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("a reading has not ended within %v", within))
	defer cancel()
	for q, err := range f.src.Queues(ctx, "") {
		if err != nil {
			return nil, false, err
		}
		if cut = len(queues) == maxNames; cut {
			break
		}
		queues = append(queues, q)
	}
	slices.SortFunc(queues, func(a, b engine.Queue) int { return strings.Compare(a.Name, b.Name) })
	return queues, cut, nil
}

// fresh is a picture that is not older than two pauses, or what there is if the engine does
// not answer.
func (f *feed) fresh(ctx context.Context) shot {
	f.mu.Lock()
	defer f.mu.Unlock()
	patience := time.NewTimer(late)
	defer patience.Stop()
	for asked := time.Now(); ; {
		f.want()
		switch {
		case time.Since(f.tried) <= 2*max(f.every, f.shot.took), f.tried.After(asked), f.shot.over,
			!f.shot.away.IsZero() && !f.running.IsZero(): // it hangs
			return f.shot
		}
		news := f.news
		f.mu.Unlock()
		var end bool
		select {
		case <-news:
		case <-patience.C:
			end = true
		case <-ctx.Done():
			end = true
		}
		f.mu.Lock()
		if end {
			return f.shot
		}
	}
}

// follow counts a page in until stop is called; nil: there are too many.
func (f *feed) follow() (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pages >= maxPages {
		return nil
	}
	f.pages++
	f.want()
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.pages--
		f.wanted = time.Now()
	}
}

// latest is the version that pages should show, and what is closed when that may be another.
func (f *feed) latest() (version uint64, news <-chan struct{}, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shot.version, f.news, f.shot.over
}

// one reads a name that is in no picture: a free one, or one where somebody else's data is,
// which lists leave out. All pages of that name share a reading.
func (f *feed) one(ctx context.Context, name string) (engine.Queue, error) {
	f.mu.Lock()
	s := f.asked[name]
	if f.shot.over {
		f.mu.Unlock()
		return engine.Queue{}, errors.New("this program is ending")
	}
	if s == nil || time.Since(s.began) > f.every {
		for other, o := range f.asked {
			if time.Since(o.began) > within {
				delete(f.asked, other)
			}
		}
		s = &single{began: time.Now(), done: make(chan struct{})}
		f.asked[name] = s
		f.mu.Unlock()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), late)
		defer cancel()
		s.queue, s.err = f.src.Queue(bounded, name)
		close(s.done)
		return s.queue, s.err
	}
	f.mu.Unlock()
	select {
	case <-s.done:
		return s.queue, s.err
	case <-ctx.Done():
		return engine.Queue{}, ctx.Err()
	}
}

// forget has the queue of a name read anew, by whoever asks for it next.
func (f *feed) forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.asked, name)
}

// revokes notes that somebody is about to end a claim here.
func (f *feed) revokes(name string, ticket uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.past.revokes(view.Key{Name: name, Ticket: ticket})
}

// revoked has the engine read soon, after it has answered.
func (f *feed) revoked(name string, ticket uint64, worked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.past.revoked(view.Key{Name: name, Ticket: ticket}, worked)
	delete(f.asked, name) // it is old
	f.want()
}

// history is a copy of what was seen of a name since it began: events, the newest first, and
// gaps, the oldest first.
func (f *feed) history(keep func(*event) bool, most int) (events []event, gaps []gap, began, whole time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	began = f.past.since()
	events = f.past.last(func(e *event) bool { return !e.At.Before(began) && keep(e) }, most)
	gaps = slices.DeleteFunc(slices.Clone(f.past.gaps), func(g gap) bool { return !g.To.After(began) })
	return events, gaps, began, f.past.whole
}

// lost is a copy of what was lost, the newest first.
func (f *feed) lost(keep func(*event) bool, since time.Time, most int) []event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.past.lostLast(keep, since, most)
}

// rate is how many claims on names to keep were granted a second, lately.
func (f *feed) rate(keep func(name string) bool) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.past.rate(keep)
}
