package ui

import (
	"fmt"
	"net/http"
	"time"
)

// How often a stream says that it lives, and how often its caller is looked up again.
const (
	aliveEvery = 15 * time.Second
	knownEvery = 5 * time.Second
)

// events sends the version that pages should show, and again when it is another: no more
// often than the engine is read.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	if h.o.Rights != nil {
		if _, err := h.o.Rights(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
	}
	if r.Method == http.MethodHead { // its answer has no end that the caller could see
		w.Header().Set("Content-Type", "text/event-stream")
		return
	}
	stop := h.feed.follow()
	if stop == nil {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer stop()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	send := func(text string) bool {
		out.SetWriteDeadline(time.Now().Add(writeWithin))
		_, err := fmt.Fprint(w, text)
		return err == nil && out.Flush() == nil
	}
	alive, known := time.NewTicker(aliveEvery), time.NewTicker(knownEvery)
	defer alive.Stop()
	defer known.Stop()
	sent := uint64(0)
	for more := send("retry: 1000\n\n"); more; {
		version, news, over := h.feed.latest()
		if over {
			return
		}
		if version != sent {
			sent = version
			more = send(fmt.Sprintf("event: changed\ndata: %d\n\n", version))
			continue
		}
		select {
		case <-news:
		case <-alive.C:
			more = send(":\n\n")
		case <-known.C:
			more = h.o.Known == nil || h.o.Known(r)
		case <-r.Context().Done():
			return
		}
	}
}
