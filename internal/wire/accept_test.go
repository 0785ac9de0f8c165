package wire

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
)

// full is a listener of a process that may open no more files, for some calls.
type full struct {
	net.Listener
	calls atomic.Int32
}

func (l *full) Accept() (net.Conn, error) {
	if l.calls.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

func TestAProxyAcceptsAgainOnceThereAreFreeFiles(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &full{Listener: l}
	f.calls.Store(3)
	p := on(f, server.Addr().String(), nil)
	defer p.Close()
	client, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	served, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	if _, err := served.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}
