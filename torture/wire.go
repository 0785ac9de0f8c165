package torture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"leasehold/internal/wire"
)

// Wire puts a proxy between the clients and each address of the URL, and does to their
// connections what networks do. Every address needs its port, and the engine must use no
// others: it cannot strike at a Sentinel, a Cluster, or over TLS.
func Wire() Nemesis { return &wires{} }

type wires struct{ proxies []*wire.Proxy }

func (*wires) Name() string { return "wire" }

// Prepare starts the proxies, and sees that no call goes round them.
func (n *wires) Prepare(ctx context.Context, g *Ground) error {
	hosts, with, err := hostsOf(g.URL)
	if err != nil {
		return err
	}
	stop := func() (err error) {
		for _, p := range n.proxies {
			err = errors.Join(err, p.Close())
		}
		n.proxies = nil
		return err
	}
	var through []string
	for _, host := range hosts {
		p, err := wire.New(host, nil)
		if err != nil {
			return errors.Join(err, stop())
		}
		n.proxies = append(n.proxies, p)
		through = append(through, p.Addr)
	}
	url := with(through)
	if err := n.proven(ctx, g.Open, url); err != nil {
		return errors.Join(err, stop())
	}
	g.URL = url
	g.Cleanup(stop)
	return nil
}

// unproven is how long an engine is given to go round a proxy.
const unproven = time.Second

// proven sees that an engine works through the proxies, and only through them.
func (n *wires) proven(ctx context.Context, open Open, url string) error {
	eng, err := open(ctx, url)
	if err != nil {
		return fmt.Errorf("the engine cannot be used through a proxy: %w", err)
	}
	defer eng.Close()
	if _, err := eng.Queue(ctx, "torture"); err != nil {
		return fmt.Errorf("the engine cannot be used through a proxy: %w", err)
	}
	for _, p := range n.proxies {
		p.BlackHole(true)
		defer p.BlackHole(false)
	}
	ctx, cancel := context.WithTimeout(ctx, unproven)
	defer cancel()
	if _, err := eng.Queue(ctx, "torture"); err == nil {
		return errors.New("the engine finds its servers by itself, and goes round a proxy")
	}
	return nil
}

// hostsOf returns the addresses of a URL, and how to write it with others.
func hostsOf(url string) (hosts []string, with func([]string) string, err error) {
	scheme, rest, found := strings.Cut(url, "://")
	if !found || strings.HasPrefix(rest, "/") {
		return nil, nil, errors.New("the URL has no host:port")
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	begin := strings.LastIndexByte(rest[:end], '@') + 1
	hosts = strings.Split(rest[begin:end], ",")
	for _, host := range hosts {
		if _, _, err := net.SplitHostPort(host); err != nil {
			return nil, nil, errors.New("the URL has no port: write it as host:port")
		}
	}
	return hosts, func(others []string) string {
		return scheme + "://" + rest[:begin] + strings.Join(others, ",") + rest[end:]
	}, nil
}

// Strike does one thing to all connections, or to those of one address.
func (n *wires) Strike(ctx context.Context, s *Strike) error {
	hit := n.proxies
	if len(hit) > 1 && s.Rand.IntN(2) == 0 {
		at := s.Rand.IntN(len(hit))
		hit = hit[at : at+1]
	}
	all := faultsOfWires()
	f := all[s.Rand.IntN(len(all))]
	before := effectsOf(hit)
	s.Begin("", fmt.Sprintf("%s, %d of %d addresses", f.what, len(hit), len(n.proxies)))
	for _, p := range hit {
		f.strike(p, s)
	}
	defer func() {
		for _, p := range hit {
			f.heal(p)
		}
	}()
	for range f.again {
		wait(ctx, time.Duration(s.Rand.Int64N(int64(s.TTL/4))))
		for _, p := range hit {
			f.strike(p, s)
		}
	}
	s.Last(ctx)
	after := effectsOf(hit)
	if after != before {
		s.Bit("%d connections cut, %d refused, %d answers lost, %d pieces late",
			after.Cut-before.Cut, after.Refused-before.Refused, after.Lost-before.Lost, after.Late-before.Late)
	}
	return nil
}

// effectsOf is the sum of several proxies.
func effectsOf(all []*wire.Proxy) (sum wire.Effects) {
	for _, p := range all {
		e := p.Effects()
		sum.Cut, sum.Refused, sum.Lost, sum.Late = sum.Cut+e.Cut, sum.Refused+e.Refused, sum.Lost+e.Lost, sum.Late+e.Late
	}
	return sum
}

// wireFault is one thing that a network does.
type wireFault struct {
	what   string
	again  int // how many more times it strikes
	strike func(*wire.Proxy, *Strike)
	heal   func(*wire.Proxy)
}

func faultsOfWires() []wireFault {
	return []wireFault{
		{"cut", 0, func(p *wire.Proxy, _ *Strike) { p.BlackHole(true) }, func(p *wire.Proxy) { p.BlackHole(false) }},
		{"cut, and nobody may connect", 0, func(p *wire.Proxy, _ *Strike) { p.Refuse(true); p.Reset() }, func(p *wire.Proxy) { p.Refuse(false) }},
		{"slow", 0, func(p *wire.Proxy, s *Strike) { p.Delay(time.Duration(s.Rand.Int64N(int64(s.TTL)))) }, func(p *wire.Proxy) { p.Delay(0) }},
		{"one way: no requests arrive", 0, func(p *wire.Proxy, _ *Strike) { p.StopRequests(true) }, func(p *wire.Proxy) { p.StopRequests(false) }},
		{"one way: no answers arrive", 0, func(p *wire.Proxy, _ *Strike) { p.StopReplies(true) }, func(p *wire.Proxy) { p.StopReplies(false) }},
		{"answers are lost", 0, func(p *wire.Proxy, _ *Strike) { p.DropReplies(true) }, func(p *wire.Proxy) { p.DropReplies(false) }},
		{"single answers are lost", 3, func(p *wire.Proxy, s *Strike) { p.LoseNext(1 + s.Rand.IntN(4)) }, func(p *wire.Proxy) { p.LoseNext(0) }},
		{"single answers wait", 0, func(p *wire.Proxy, s *Strike) { p.HoldNext(1 + s.Rand.IntN(4)) }, (*wire.Proxy).Release},
		{"resets", 10, func(p *wire.Proxy, _ *Strike) { p.Reset() }, func(*wire.Proxy) {}},
	}
}
