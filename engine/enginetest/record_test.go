package enginetest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Check runs the suite where failing is the point: each case on a recorder in
// place of a test. A promise that failed once is not tried further.
func Check(t testing.TB, h Harness) (results []Result, failures []string) {
	return check(t, h, func(promise, kase) bool { return true })
}

// CheckLocal is Check of the cases that may run side by side.
func CheckLocal(t testing.TB, h Harness) (results []Result, failures []string) {
	return check(t, h, promise.isLocal)
}

func check(t testing.TB, h Harness, also func(promise, kase) bool) (results []Result, failures []string) {
	g := guaranteesOf(t, h)
	h = h.withDefaults(g)
	for _, p := range promises() {
		for _, c := range p.cases {
			if !also(p, c) {
				continue
			}
			r := &recorder{TB: t, name: p.name + ": " + c.name}
			r.run(func() { try(r, h, g, p, c, &results) })
			if r.Failed() {
				failures = append(failures, fmt.Sprintf("%s: %s", r.name, r.said("; ")))
				break
			}
		}
	}
	return results, failures
}

// Promises are the names of the suite's files.
func Promises() (names []string) {
	for _, p := range promises() {
		names = append(names, p.name)
	}
	return names
}

// recorder is a testing.TB whose failures are only written down. What it does
// not overload (temporary folders and the like) is the real test's.
type recorder struct {
	testing.TB
	name   string
	ctx    context.Context
	cancel context.CancelFunc

	mu              sync.Mutex
	failed, skipped bool
	log             []string
	cleanups        []func()
}

// run ends when fn and every clean-up have ended, by return or by FailNow.
func (r *recorder) run(fn func()) {
	r.ctx, r.cancel = context.WithCancel(context.Background())
	defer r.cancel()
	apart := func(f func()) { // FailNow ends a goroutine: each gets its own
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		<-done
	}
	apart(fn)
	r.cancel()
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			return
		}
		f := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		apart(f)
	}
}

func (r *recorder) notification(failed bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.log = append(r.log, text)
}

// said is what was written down so far: a Watch of an engine that is wrong may go on.
func (r *recorder) said(between string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.log, between)
}

func (r *recorder) Helper()                      {}
func (r *recorder) Name() string                 { return r.name }
func (r *recorder) Context() context.Context     { return r.ctx }
func (r *recorder) Log(args ...any)              { r.notification(false, fmt.Sprint(args...)) }
func (r *recorder) Logf(f string, args ...any)   { r.notification(false, fmt.Sprintf(f, args...)) }
func (r *recorder) Error(args ...any)            { r.notification(true, fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, args ...any) { r.notification(true, fmt.Sprintf(f, args...)) }
func (r *recorder) Fail()                        { r.notification(true, "failed") }
func (r *recorder) FailNow()                     { r.Fail(); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)            { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, args ...any) { r.Errorf(f, args...); runtime.Goexit() }
func (r *recorder) Skip(args ...any)             { r.Log(args...); r.SkipNow() }
func (r *recorder) Skipf(f string, args ...any)  { r.Logf(f, args...); r.SkipNow() }

func (r *recorder) SkipNow() {
	r.mu.Lock()
	r.skipped = true
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Skipped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.skipped
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}
