package service

import (
	"log/slog"
	"sync"
)

// trouble is why a file that is read again cannot be used. It is logged when it begins, when
// it becomes another, and when it is over.
type trouble struct {
	mu   sync.Mutex
	last string
}

func (t *trouble) note(log *slog.Logger, what string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	t.mu.Lock()
	same := text == t.last
	t.last = text
	t.mu.Unlock()
	switch {
	case same:
	case err != nil:
		log.Warn(what, "error", err)
	default:
		log.Info("that is over: " + what)
	}
}
