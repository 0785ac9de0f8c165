package servers

import (
	"errors"
	"os"
	"path/filepath"
)

// Certs are files in PEM: an authority, and a certificate of 127.0.0.1 and localhost
// that it signed, for servers and clients, with its key. All are valid for a day.
type Certs struct{ CA, Cert, Key string }

// MakeCerts makes them for a test. Servers that root runs as nobody may read them.
func MakeCerts(t TB) Certs {
	t.Helper()
	dir, err := os.MkdirTemp("", "lh-tls")
	if err != nil {
		t.Fatalf("certificates: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := Certs{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	if err := errors.Join(writeCerts(dir), os.Chmod(dir, 0o755), os.Chmod(c.CA, 0o644), os.Chmod(c.Cert, 0o644), os.Chmod(c.Key, 0o644)); err != nil {
		t.Fatalf("certificates: %v", err)
	}
	return c
}
