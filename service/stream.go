package service

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"leasehold/internal/remote"
)

// stream is an answer that goes on. A caller that does not read ends it.
type stream struct {
	mu   sync.Mutex
	w    *bufio.Writer
	to   *http.ResponseController
	fail func()
}

func newStream(w http.ResponseWriter, fail func()) *stream {
	return &stream{w: bufio.NewWriter(w), to: http.NewResponseController(w), fail: fail}
}

func (o *stream) write(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		o.fail()
		return
	}
	o.line(line)
}

func (o *stream) line(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to.SetWriteDeadline(time.Now().Add(answerWithin))
	o.w.Write(b)
	o.w.WriteByte('\n')
	if o.w.Flush() != nil || o.to.Flush() != nil {
		o.fail()
	}
}

// keepAlive writes empty lines until ctx ends, or the stream fails because it may not go on.
func (o *stream) keepAlive(ctx context.Context, mayGoOn func() bool) {
	tick := time.NewTicker(remote.KeepAlive)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !mayGoOn() {
				o.fail()
				return
			}
			o.line(nil)
		case <-ctx.Done():
			return
		}
	}
}

func (o *stream) event(kind string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		o.fail()
		return
	}
	o.line(fmt.Appendf(nil, "event: %s\ndata: %s\n", kind, body))
}
