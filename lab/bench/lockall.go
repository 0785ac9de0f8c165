package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"leasehold"
	"leasehold/engine/filelock"
	"leasehold/lab/bench/harness"
)

const (
	perLock = "perlock" // LockAll of ten names by Lock of one
	oneLock = "onelock"
)

// lockingAll measures LockAll of ten free names against Lock of one, in turns.
func lockingAll() harness.Workload {
	return harness.Workload{
		ID: "lockall", Title: "LockAll of 10 free names", Competitors: []string{harness.Us}, Main: harness.P50, Lower: true,
		Columns: []harness.Column{{Key: harness.P50, Head: "LockAll and Unlock, p50", Unit: harness.Nanoseconds}, {Key: oneLock, Head: "Lock and Unlock, p50", Unit: harness.Nanoseconds}, {Key: perLock, Head: "ratio"}},
		How:     "On filelock, 500 times each in turns, in one process.",
		Measure: func(ctx context.Context, stage *harness.Stage, _ harness.Competitor) (s harness.Sample, err error) {
			eng, err := filelock.New(stage.At.Dir, nil)
			if err != nil {
				return s, err
			}
			c, err := leasehold.New(eng, nil)
			if err != nil {
				return s, errors.Join(err, eng.Close())
			}
			defer func() { err = errors.Join(err, c.Close()) }()
			var names []string
			for i := range 10 {
				names = append(names, fmt.Sprint("all:", i))
			}
			var one, all []int64
			for range 500 {
				began := time.Now()
				l, err := c.Lock(ctx, "one")
				if err != nil {
					return s, err
				}
				if err := l.Unlock(); err != nil {
					return s, err
				}
				one = append(one, int64(time.Since(began)))

				began = time.Now()
				ls, err := c.LockAll(ctx, names...)
				if err != nil {
					return s, err
				}
				if err := ls.Unlock(); err != nil {
					return s, err
				}
				all = append(all, int64(time.Since(began)))
			}
			slices.Sort(one)
			slices.Sort(all)
			a, b := harness.Percentile(all, 0.5), harness.Percentile(one, 0.5)
			s.Figures = map[string]float64{harness.P50: a, oneLock: b, perLock: a / b}
			return s, nil
		},
	}
}
