package service

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"
)

// files are the certificates of a listener. New ones are used as soon as they stand in the
// files, for new connections. While the files hold nothing usable, as in the middle of a
// change, the last good ones stay in use.
type files struct {
	cert, key, ca string

	mu      sync.Mutex
	checked time.Time
	stamp   string
	current *tls.Config
	wrong   func(error) // gets what the newest files cannot be used for, or nil
}

func loadFiles(cert, key, ca string, wrong func(error)) (*files, error) {
	f := &files{cert: cert, key: key, ca: ca, wrong: wrong}
	return f, f.load()
}

// config implements tls.Config.GetConfigForClient.
func (f *files) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checked) >= recheck {
		f.checked = time.Now()
		f.wrong(f.load()) // the last good one stays in use
	}
	return f.current, nil
}

func (f *files) load() error {
	stamp := ""
	for _, file := range []string{f.cert, f.key, f.ca} {
		if info, err := os.Stat(file); err == nil {
			stamp += fmt.Sprint(info.ModTime().UnixNano(), info.Size(), " ")
		}
	}
	if stamp == f.stamp && f.current != nil {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return fmt.Errorf("read the authorities of clients: %w", err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("read the authorities of clients: %s holds no certificate in PEM", f.ca)
		}
	}
	f.stamp, f.current = stamp, c
	return nil
}
