package service

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/httplock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a Server on an engine, over TLS, and returns its URL for package httplock.
func serve(t testing.TB, eng engine.Engine, o *Options) (s *Server, url string) {
	t.Helper()
	s, err := New(eng, o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewUnstartedServer(described(t, s))
	h.EnableHTTP2 = true
	h.StartTLS()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	if err := os.WriteFile(ca, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Drain()
		h.CloseClientConnections()
		h.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, "https://" + strings.TrimPrefix(h.URL, "https://") + "?ca=" + ca
}

// client opens one more client of a service.
func client(t testing.TB, url string) engine.Engine {
	t.Helper()
	e, err := httplock.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
