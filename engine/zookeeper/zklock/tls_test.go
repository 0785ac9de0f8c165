package zklock

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
)

// secure speaks TLS in front of a server, as a secure port does, with a certificate of
// 127.0.0.1 that the file vouches for.
func secure(t *testing.T, target string) (addr, ca string) {
	t.Helper()
	certs := httptest.NewTLSServer(nil)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certs.Certificate().Raw}), 0o600)
	certs.Close()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certs.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", target)
			if err != nil {
				from.Close()
				return
			}
			all.Go(func() { io.Copy(to, from); to.Close(); from.Close() })
			all.Go(func() { io.Copy(from, to); to.Close(); from.Close() })
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr().String(), ca
}

func TestTLS(t *testing.T) {
	t.Parallel() // it waits in vain
	s := beside(t)
	addr, ca := secure(t, s.Addr)
	t.Run("a secure port is not served", func(t *testing.T) {
		e, err := Open(within(t), "zookeepers://"+addr+"/?ca="+ca)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		r := exclusive("secure")
		r.TTL = 10 * time.Second
		if got, err := e.Join(within(t), r); err != nil || got.State != engine.Held {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("a stranger is believed", func(t *testing.T) {
		// On a busy machine the last handshake may not have come to that.
		var err error
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			var e engine.Engine
			e, err = Open(ctx, "zookeepers://"+addr+"/")
			cancel()
			if err == nil {
				e.Close()
				t.Fatal("nobody vouches for its certificate")
			}
			if strings.Contains(err.Error(), "unknown authority") {
				return
			}
		}
		t.Errorf("%v", err)
	})
}
