package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// These bound what a client of the server can take.
const (
	headerTime  = 5 * time.Second
	idleTime    = 2 * time.Minute // more than the usual time between two scrapes
	sendTime    = 10 * time.Second
	headerBytes = 16 << 10
	connections = 512 // more wait in the kernel
)

// ServeHTTP answers a scrape of /metrics, and says on / where that is.
func (x *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
	case r.URL.Path == "/metrics":
		x.handler.ServeHTTP(w, r)
	case r.URL.Path == "/":
		io.WriteString(w, "leasehold exporter: the metrics are at /metrics\n")
	default:
		http.NotFound(w, r)
	}
}

// Serve answers scrapes until ctx ends. Then it takes no new ones, answers those that are
// under way, and returns nil. It closes listener. Complaints of the server go to
// complaints.
func (x *Exporter) Serve(ctx context.Context, listener net.Listener, complaints *log.Logger) error {
	server := &http.Server{
		Handler: x, ErrorLog: complaints, MaxHeaderBytes: headerBytes,
		ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, IdleTimeout: idleTime,
		WriteTimeout: x.readings.within + sendTime,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(listener, connections)) }()
	select {
	case err := <-ended:
		return fmt.Errorf("answer scrapes: %w", err)
	case <-ctx.Done():
	}
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.readings.within+time.Second)
	defer cancel()
	err := server.Shutdown(rest)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close() // who does not read its answer does not get it
	}
	<-ended
	return err
}
