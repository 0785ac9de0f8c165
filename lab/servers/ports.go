package servers

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
)

// freePort finds a port p such that p and p+offset are free on loopback. Ports
// are taken from below the range that outgoing connections use, so that a
// passing connection cannot be in the way at start or at restart. Somebody else may
// still take it first: who starts a server tries again with another.
//
// Until the returned function is called no other caller gets the port, in whatever
// process: a server that was down finds its own free again. The UDP port of that number
// says so, which no server of these tests uses.
func freePort(offset int) (port int, release func(), err error) {
	for range 200 {
		p := 12000 + rand.IntN(14000-offset)
		if p == busDefault {
			continue
		}
		taken := takePort(p)
		if taken == nil {
			continue
		}
		if offset == 0 {
			return p, func() { taken.Close() }, nil
		}
		if second := takePort(p + offset); second != nil {
			return p, func() { taken.Close(); second.Close() }, nil
		}
		taken.Close()
	}
	return 0, nil, fmt.Errorf("no free loopback port found in 200 tries")
}

// busDefault is the one port of that range that a server of these tests has by default:
// the bus of a Redis Cluster.
const busDefault = 16379

// Nobody is an address where nobody listens, for tests that need one for longer than a
// moment: a free port may soon be that of another test's server.
const Nobody = "127.0.0.1:1"

// FreePort finds a free loopback port that is no server's default.
// Another caller may get the same one.
func FreePort() (int, error) {
	port, release, err := freePort(0)
	if err == nil {
		release()
	}
	return port, err
}

// takePort is nil where somebody has the port.
func takePort(port int) io.Closer {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	taken, err := net.ListenPacket("udp4", addr)
	if err != nil {
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		taken.Close()
		return nil
	}
	l.Close()
	return taken
}
