package servers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// PgBouncerServer is a pool of connections in front of a PostgreSQL server.
type PgBouncerServer struct {
	Addr string // 127.0.0.1:port

	dir     string
	release func() // gives its port back
	process *Process
}

// PgBouncer starts, for a test, a PgBouncer in front of a server. mode is its
// pool_mode: session, transaction or statement.
func PgBouncer(t TB, s *PostgresServer, mode string) *PgBouncerServer {
	t.Helper()
	Need(t, "pgbouncer")
	b, err := anew(func() (*PgBouncerServer, error) { return startPgBouncer(s, mode) })
	if err != nil {
		t.Fatalf("pgbouncer: %v", err)
	}
	closing(t, b.process.Tail, b.Close)
	return b
}

func startPgBouncer(s *PostgresServer, mode string) (_ *PgBouncerServer, err error) {
	dir, err := os.MkdirTemp("", "lh-pgb")
	if err != nil {
		return nil, err
	}
	b := &PgBouncerServer{dir: dir}
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	port, release, err := freePort(0)
	if err != nil {
		return nil, err
	}
	b.release = release
	b.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	host, behind, _ := net.SplitHostPort(s.Addr)
	conf := filepath.Join(dir, "conf")
	err = os.WriteFile(conf, fmt.Appendf(nil, `[databases]
* = host=%s port=%s user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = 5
`, host, behind, port, mode), 0o644)
	if err != nil {
		return nil, err
	}
	b.process, err = Start(Command{Program: "pgbouncer", Args: []string{conf}, Dir: dir, Unprivileged: true})
	if err != nil {
		return nil, err
	}
	err = b.process.Until(startBound, func() error {
		c, err := net.DialTimeout("tcp", b.Addr, time.Second)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return b, err
}

// URL names a database: "" is "postgres". Everybody is the superuser there.
func (b *PgBouncerServer) URL(database string) string { return postgresURL(b.Addr, "", database) }

// Close ends it and removes its folder.
func (b *PgBouncerServer) Close() error {
	var err error
	if b.process != nil {
		err = b.process.Kill()
	}
	if b.release != nil {
		b.release()
	}
	if rm := os.RemoveAll(b.dir); err == nil {
		err = rm
	}
	return err
}
