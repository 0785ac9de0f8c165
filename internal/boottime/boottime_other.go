//go:build !linux && !darwin && !windows

package boottime

import (
	"sync"
	"time"
)

var (
	start = time.Now()

	mu   sync.Mutex
	seen suspensions
)

func now() time.Duration {
	mu.Lock() // also for the reading: who reads first is counted first
	defer mu.Unlock()
	t := time.Now()
	return seen.elapsed(t.Sub(start), t.Round(0).Sub(start.Round(0)))
}
