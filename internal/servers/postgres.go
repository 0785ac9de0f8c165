package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// PostgresOptions are the choices of one PostgreSQL server. Nil means the
// defaults: whoever reaches it is trusted, and every commit is synced.
type PostgresOptions struct {
	Args []string // further configuration: "-c", "synchronous_commit=off"
	Env  []string // in addition to this process's
}

// PostgresServer is one PostgreSQL server with the databases that initdb makes
// and the superuser "postgres".
type PostgresServer struct {
	Addr string // 127.0.0.1:port
	Dir  string

	opts PostgresOptions

	mu      sync.Mutex
	process *Process
}

// Postgres starts one server for a test.
func Postgres(t TB, o *PostgresOptions) *PostgresServer {
	t.Helper()
	Need(t, "postgres", "initdb", "psql")
	s, err := StartPostgres(o)
	if err != nil {
		t.Fatalf("postgres: %v", err)
	}
	closing(t, s.Tail, s.Close)
	return s
}

// StartPostgres makes a cluster of databases and starts its server. Close ends it
// and removes its folder.
func StartPostgres(o *PostgresOptions) (*PostgresServer, error) {
	s, err := newPostgres(o)
	if err != nil {
		return nil, err
	}
	err = s.run("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	if err == nil {
		err = s.start()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// StartReplica starts a server that follows this one, by way of an address, and
// answers queries that only read.
func (s *PostgresServer) StartReplica(by string) (*PostgresServer, error) {
	r, err := newPostgres(&s.opts)
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(by)
	err = r.run("pg_basebackup", "-D", r.data(), "-h", host, "-p", port, "-U", "postgres", "-R", "-c", "fast", "--no-sync")
	if err == nil {
		err = r.start()
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Promote makes a replica a server of its own that can be written to.
func (s *PostgresServer) Promote() error {
	_, err := s.Query("SELECT pg_promote(true, 60)")
	return err
}

// Replica starts, for a test, a server that follows this one, through a proxy if
// there is one.
func (s *PostgresServer) Replica(t TB, by *Proxy) *PostgresServer {
	t.Helper()
	addr := s.Addr
	if by != nil {
		addr = by.Addr
	}
	r, err := s.StartReplica(addr)
	if err != nil {
		t.Fatalf("replica: %v", err)
	}
	closing(t, r.Tail, r.Close)
	return r
}

func newPostgres(o *PostgresOptions) (*PostgresServer, error) {
	if o == nil {
		o = &PostgresOptions{}
	}
	dir, err := os.MkdirTemp("", "lh-pg") // a short name: a socket's path may have 107 bytes
	if err != nil {
		return nil, err
	}
	return &PostgresServer{Dir: dir, opts: *o}, nil
}

func (s *PostgresServer) data() string { return filepath.Join(s.Dir, "data") }

// run runs a program of PostgreSQL's to its end, as the user who will run the
// server.
func (s *PostgresServer) run(program string, args ...string) error {
	p, err := Start(Command{Program: program, Args: args, Dir: s.Dir, Unprivileged: true})
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-time.After(startBound):
		return errors.Join(fmt.Errorf("%s hangs\n%s", program, p.Tail()), p.Kill())
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %v\n%s", program, p.cmd.ProcessState, p.Tail())
	}
	return nil
}

// start finds a port at the first start and keeps it.
func (s *PostgresServer) start() error {
	fresh := s.Addr == ""
	// Backends of a server that was killed end a little after it, and until then
	// it cannot be started again. A port may be taken by somebody in between.
	return until(startBound, func() error {
		if fresh {
			port, err := freePort(0)
			if err != nil {
				return err
			}
			s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
		_, port, _ := net.SplitHostPort(s.Addr)
		p, err := Start(Command{
			Program: "postgres", Dir: s.Dir, Env: s.opts.Env, Unprivileged: true,
			Args: append([]string{"-D", s.data(), "-p", port, "-k", s.Dir, "-c", "listen_addresses=127.0.0.1"}, s.opts.Args...),
		})
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.process = p
		s.mu.Unlock()
		return p.Until(startBound, func() error {
			_, err := s.Query("SELECT 1")
			return err
		})
	})
}

// Query runs SQL as the superuser, over the socket, in the database "postgres".
// It returns what psql prints: a line for a row, columns divided by |.
func (s *PostgresServer) Query(sql string) (string, error) {
	psql, err := find("psql")
	if err != nil {
		return "", Installed("psql")
	}
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	_, port, _ := net.SplitHostPort(s.Addr)
	out, err := exec.CommandContext(ctx, psql, "-h", s.Dir, "-p", port, "-U", "postgres", "-d", "postgres",
		"-v", "ON_ERROR_STOP=1", "-XAtqc", sql).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, out)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// URL names a database of this server and a user: "" is "postgres" for both.
func (s *PostgresServer) URL(user, database string) string {
	return postgresURL(s.Addr, user, database)
}

func postgresURL(addr, user, database string) string {
	if user == "" {
		user = "postgres"
	}
	if database == "" {
		database = "postgres"
	}
	return "postgres://" + user + "@" + addr + "/" + database + "?sslmode=disable"
}

// Kill ends the server with SIGKILL. Its backends notice and end.
func (s *PostgresServer) Kill() error { return s.current().Kill() }

// Stop halts the server with SIGSTOP: nobody can connect. Connections that stand
// are served by processes of their own, which go on.
func (s *PostgresServer) Stop() error { return s.current().Stop() }

// Cont lets a stopped server go on.
func (s *PostgresServer) Cont() error { return s.current().Cont() }

// PID is the number of its first process, whose children serve the connections.
func (s *PostgresServer) PID() int { return s.current().PID() }

// Tail is the end of its log.
func (s *PostgresServer) Tail() string {
	if p := s.current(); p != nil {
		return p.Tail()
	}
	return "not started"
}

func (s *PostgresServer) current() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Restart kills the server and starts it again at the same address.
func (s *PostgresServer) Restart() error {
	if err := s.Kill(); err != nil {
		return err
	}
	return s.start()
}

// Close ends the server with its backends and removes its folder. Closing twice
// is allowed.
func (s *PostgresServer) Close() error {
	var err error
	if p := s.current(); p != nil && p.Alive() {
		// An immediate shutdown ends the backends, which SIGKILL would leave
		// behind for a moment.
		err = p.Signal(syscall.SIGQUIT)
		select {
		case <-p.Done():
		case <-time.After(10 * time.Second):
			err = errors.Join(err, p.Kill())
		}
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}
