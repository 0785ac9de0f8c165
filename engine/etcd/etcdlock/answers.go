package etcdlock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// probeTime bounds the search for what answers at an address.
const probeTime = time.Second

// whoAnswers says what answers where no etcd did, address by address: the library
// says that time has run out, whatever it heard. Nil: nothing is found wrong, or ctx
// has ended.
func whoAnswers(ctx context.Context, config *clientv3.Config) error {
	if ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	said := make(chan error, len(config.Endpoints))
	for _, endpoint := range config.Endpoints {
		go func() { said <- probe(ctx, endpoint, config.TLS) }()
	}
	var all []error
	for range config.Endpoints {
		all = append(all, <-said)
	}
	return errors.Join(all...)
}

// greeting begins HTTP/2, in which etcd is spoken: the preface, and no settings.
const greeting = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

func probe(ctx context.Context, endpoint string, secure *tls.Config) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil // then the library has said so
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return fmt.Errorf("nobody answers at %s: %w", u.Host, err)
	}
	defer conn.Close()
	until, _ := ctx.Deadline()
	_ = conn.SetDeadline(until)
	if secure != nil {
		mine := secure.Clone()
		if mine.ServerName == "" {
			mine.ServerName = u.Hostname()
		}
		mine.NextProtos = []string{"h2"}
		err := tls.Client(conn, mine).HandshakeContext(ctx)
		var plain tls.RecordHeaderError
		switch {
		case errors.As(err, &plain):
			return fmt.Errorf("the server at %s speaks no TLS: if it is an etcd without TLS, write etcd://", u.Host)
		case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
			return fmt.Errorf("the server at %s hangs up on TLS: if it is an etcd that speaks no TLS, write etcd://", u.Host)
		case err != nil:
			return fmt.Errorf("no TLS with %s: %w", u.Host, err)
		}
		return nil
	}
	if _, err := conn.Write([]byte(greeting)); err != nil {
		return fmt.Errorf("the server at %s hung up: check that it is etcd", u.Host)
	}
	b := make([]byte, 64)
	n, err := conn.Read(b)
	switch b = b[:n]; {
	case n >= 5 && b[0] == 0 && b[3] == 4: // its settings
		return nil
	case n >= 2 && b[0] == 0x15 && b[1] == 3: // an alert
		return fmt.Errorf("the server at %s speaks TLS: write etcds://", u.Host)
	case n > 0:
		return fmt.Errorf("the server at %s is not etcd: it says %q", u.Host, b)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the server at %s says nothing: it is stopped, or not etcd", u.Host)
	}
	return fmt.Errorf("the server at %s hangs up: it is not etcd, or speaks only TLS: then write etcds://", u.Host)
}
