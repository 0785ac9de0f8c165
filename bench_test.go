package leasehold

import (
	"context"
	"sync"
	"testing"

	"leasehold/engine/memlock"
)

func benchClient(b *testing.B, o *Options) *Client {
	c, err := New(memlock.New(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	b.ReportAllocs()
	return c
}

func BenchmarkUncontended(b *testing.B) {
	c := benchClient(b, nil)
	for b.Loop() {
		benchPair(b, c)
	}
}

func BenchmarkKept(b *testing.B) {
	c := benchClient(b, &Options{IdleTimeout: DefaultTTL})
	for b.Loop() {
		benchPair(b, c)
	}
}

func BenchmarkHandoff100(b *testing.B) {
	c := benchClient(b, nil)
	var wg sync.WaitGroup
	n := b.N/100 + 1
	b.ResetTimer()
	for range 100 {
		wg.Go(func() {
			for range n {
				benchPair(b, c)
			}
		})
	}
	wg.Wait()
}

func BenchmarkValid(b *testing.B) {
	l, err := benchClient(b, nil).Lock(context.Background(), "x")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if !l.Valid() {
			b.Fatal("lost")
		}
	}
}

func benchPair(b *testing.B, c *Client) {
	l, err := c.Lock(context.Background(), "x")
	if err == nil {
		err = l.Unlock()
	}
	if err != nil {
		b.Error(err)
	}
}

func BenchmarkLockAll10(b *testing.B) {
	c := benchClient(b, nil)
	names := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
	for b.Loop() {
		all, err := c.LockAll(context.Background(), names...)
		if err == nil {
			err = all.Unlock()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
