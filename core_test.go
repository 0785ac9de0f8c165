package leasehold

import (
	"context"
	"sync"
	"testing"
	"time"

	"leasehold/engine/memlock"
)

func TestSmoke(t *testing.T) {
	c, err := New(memlock.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	l, err := c.Lock(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(l.Token(), l.Remaining(), l.Valid())
	time.Sleep(300 * time.Millisecond)
	t.Log(l.Remaining())
	_, err = c.TryLock(ctx, "a")
	t.Log(err)
	_, err = c.With(LockOptions{Wait: 100 * time.Millisecond}).Lock(ctx, "a")
	t.Log(err)
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	n := 0
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 500 {
				l, err := c.Lock(ctx, "b")
				if err != nil {
					t.Error(err)
					return
				}
				n++
				if err := l.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n != 10000 {
		t.Fatal(n)
	}
	for l, err := range c.Lines(ctx, "") {
		t.Log(l, err)
	}
}

func BenchmarkLend(b *testing.B) {
	c, _ := New(memlock.New(), nil)
	defer c.Close()
	ctx := context.Background()
	var wg sync.WaitGroup
	n := b.N/100 + 1
	b.ReportAllocs()
	b.ResetTimer()
	for range 100 {
		wg.Go(func() {
			for range n {
				l, err := c.Lock(ctx, "b")
				if err != nil {
					b.Error(err)
					return
				}
				l.Unlock()
			}
		})
	}
	wg.Wait()
}
func BenchmarkAlone(b *testing.B) {
	c, _ := New(memlock.New(), nil)
	defer c.Close()
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		l, err := c.Lock(ctx, "b")
		if err != nil {
			b.Fatal(err)
		}
		l.Unlock()
	}
}
