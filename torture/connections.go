package torture

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Connections uses up the connections that the server of the URL allows. All others who
// use that server are hit, too, so give it only where that is welcome.
func Connections() Nemesis { return &connections{} }

type connections struct{ hosts []string }

func (*connections) Name() string { return "connections" }

const (
	// mostConnections are opened to each address.
	mostConnections = 10_000
	// refusals is how many connections are refused before there is a moment's pause.
	refusals = 10
	// soon is how early a server closes a connection that is one too many. Later it
	// closes one that says nothing.
	soon = 10 * time.Second
)

func (n *connections) Prepare(_ context.Context, g *Ground) (err error) {
	n.hosts, _, err = hostsOf(g.URL)
	return err
}

func (n *connections) Strike(ctx context.Context, s *Strike) error {
	s.Begin("", "every address")
	ctx, over := context.WithCancel(ctx)
	var refused atomic.Int64
	var dialing sync.WaitGroup
	for _, host := range n.hosts {
		dialing.Go(func() { useUp(ctx, host, &refused) })
	}
	s.Last(ctx)
	over()
	dialing.Wait()
	if n := refused.Load(); n > 0 {
		s.Bit("%d connections were refused", n)
	}
	return nil
}

// useUp opens connections to an address, and keeps them, until ctx ends.
func useUp(ctx context.Context, host string, refused *atomic.Int64) {
	var open sync.WaitGroup
	defer open.Wait()
	dialer := net.Dialer{Timeout: time.Second}
	for range mostConnections {
		c, err := dialer.DialContext(ctx, "tcp", host)
		switch {
		case errors.Is(err, syscall.EMFILE):
			<-ctx.Done() // this process may not have more
			return
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			refused.Add(1)
		default:
			open.Go(func() {
				if closedSoon(ctx, c) {
					refused.Add(1)
				}
			})
		}
		if refused.Load()%refusals == refusals-1 {
			wait(ctx, 10*time.Millisecond)
		}
	}
	<-ctx.Done()
}

// closedSoon keeps a connection until ctx ends, and reports whether the server closed it.
func closedSoon(ctx context.Context, c net.Conn) bool {
	began := time.Now()
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	for b := make([]byte, 512); ; { // a server may greet before it waits
		if _, err := c.Read(b); err != nil {
			return ctx.Err() == nil && time.Since(began) < soon
		}
	}
}
