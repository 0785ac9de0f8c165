package records

import (
	"context"
	"errors"
	"io/fs"
	"time"
)

// Patience is how long a kernel lock may be held while nothing is written
// before its holder counts as stopped. A transaction takes microseconds.
const Patience = time.Second

// lock takes the kernel lock of the record. Its holder may be stopped, so it
// never simply blocks: who has seen the lock taken and nothing written for
// patience adds the next number and goes on there.
func (c *Records) lock(ctx context.Context, r *record) error {
	var (
		pause   = 10 * time.Microsecond
		looked  time.Duration // when progress was looked for
		since   time.Duration // since when there is none
		lastSeq uint64
	)
	for try := 0; ; try++ {
		ok, err := r.f.TryLock()
		if err != nil || ok {
			return err
		}
		if try < 3 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		now := c.clock()
		if try == 3 {
			looked, since = now, now
		}
		if now-looked >= c.patience/20 {
			looked = now
			if err := r.check(); err != nil {
				return err
			}
			_, seq, _, err := r.load(false)
			if err != nil {
				return err
			}
			if seq != lastSeq {
				lastSeq, since = seq, now
			} else if now-since >= c.patience {
				if err := c.replace(r); err != nil {
					return err
				}
				pause, since = 10*time.Microsecond, now
				continue
			}
		}
		sleep(ctx, pause)
		pause = min(pause*3/2, 2*time.Millisecond)
	}
}

// replace adds the next number.
func (c *Records) replace(r *record) error {
	c.step("replacing")
	f, err := r.dir.Create(r.next)
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		return errReplaced // by somebody else, or swept
	case err != nil:
		return err
	}
	c.step("replaced")
	r.f.Close()
	r.f = f
	r.setNumber(r.number + 1)
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	if d < time.Millisecond {
		time.Sleep(d)
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
