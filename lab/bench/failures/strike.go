package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"leasehold/lab/servers"
)

// proxied puts a proxy before each address: the way of the holder.
func proxied(s *stage, addrs ...string) (through []string, cut func(on bool)) {
	var proxies []*servers.Proxy
	for _, addr := range addrs {
		p := servers.ProxyTo(s, addr)
		proxies = append(proxies, p)
		through = append(through, p.Addr)
	}
	return through, func(on bool) {
		for _, p := range proxies {
			p.BlackHole(on)
		}
	}
}

// cutting is a world in which the holder can be cut off.
func cutting(s *stage, form string, addrs ...string) (w world, cut func() error, mend func() error) {
	through, hole := proxied(s, addrs...)
	w = world{holder: fmt.Sprintf(form, strings.Join(through, ",")), next: fmt.Sprintf(form, strings.Join(addrs, ","))}
	return w, func() error { hole(true); return nil }, func() error { hole(false); return nil }
}

// clocked is a clock for the faults that need one, else nil.
func clocked(s *stage, fault string) (c *servers.Clock, env []string) {
	if fault != clockForward && fault != clockBack {
		return nil, nil
	}
	c = servers.ShiftedClock(s)
	return c, c.Env()
}

// stepped moves a clock, and sees that the server goes by it: one that keeps the
// machine's would look as if a step did nothing.
func stepped(c *servers.Clock, fault string, seconds func() (string, error)) error {
	by := step
	if fault == clockBack {
		by = -step
	}
	if err := c.Set(by); err != nil {
		return err
	}
	text, err := seconds()
	if err != nil {
		return err
	}
	sec, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return err
	}
	if wrong := time.Until(time.Unix(sec, 0).Add(-by)); wrong.Abs() > step/2 {
		return fmt.Errorf("the server's clock is %v from where it was put", wrong)
	}
	return nil
}

func redisTime(r *servers.RedisServer) func() (string, error) {
	return func() (string, error) {
		now, err := r.Do("TIME")
		if err != nil {
			return "", err
		}
		return fmt.Sprint(now.([]any)[0]), nil
	}
}

// each does the same to all, at the same moment.
func each[T any](all []T, do func(T) error) error {
	errs := make(chan error)
	for _, one := range all {
		go func() { errs <- do(one) }()
	}
	var first error
	for range all {
		if err := <-errs; err != nil {
			first = err
		}
	}
	return first
}
