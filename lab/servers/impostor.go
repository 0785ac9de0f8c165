package servers

import (
	"net"
	"path/filepath"
	"testing"
)

// Impostor listens where a server should be, on a free port ("tcp") or a socket
// ("unix"), and serves each connection by serve in a goroutine of its own; nil accepts
// and never says a word. Connections stay open until the test ends, or serve closes
// them. It returns the address.
func Impostor(t testing.TB, network string, serve func(net.Conn)) string {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			if serve != nil {
				go serve(c)
			}
		}
	}()
	return filepath.ToSlash(l.Addr().String())
}
