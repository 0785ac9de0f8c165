package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// freePort finds a port p such that p and p+offset are free on loopback. Ports
// are taken from below the range that outgoing connections use, so that a
// passing connection cannot be in the way at start or at restart, and from a wide
// one, so that a server that was down finds its own free again. Somebody else may
// still take it first: who starts a server tries again with another.
func freePort(offset int) (int, error) {
	for range 200 {
		p := 12000 + rand.IntN(14000-offset)
		if p != busDefault && isFree(p) && (offset == 0 || isFree(p+offset)) {
			return p, nil
		}
	}
	return 0, fmt.Errorf("no free loopback port found in 200 tries")
}

// busDefault is the one port of that range that a server of these tests has by default:
// the bus of a Redis Cluster.
const busDefault = 16379

// Nobody is an address where nobody listens, for tests that need one for longer than a
// moment: a free port may soon be that of another test's server.
const Nobody = "127.0.0.1:1"

// FreePort finds a free loopback port that is no server's default.
func FreePort() (int, error) { return freePort(0) }

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	l.Close()
	return true
}
