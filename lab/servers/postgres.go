package servers

import (
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"time"
)

// PostgresOptions are the choices of one PostgreSQL server. Nil means the
// defaults: whoever reaches it is trusted, and every commit is synced.
type PostgresOptions struct {
	Args []string // further configuration: "-c", "synchronous_commit=off"
	Env  []string // in addition to this process's
	Disk *Disk    // where its folder is; nil: where temporary folders are

	Archive bool // what Backup and Restore need: it keeps all that it wrote to its log
}

// PostgresServer is one PostgreSQL server with the databases that initdb makes
// and the superuser "postgres". Its process is the first one, whose children serve the
// connections: where it is killed they notice and end, and where it is stopped they go
// on, while nobody can connect.
type PostgresServer struct {
	*instance
	opts PostgresOptions
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
	in, err := newInstance("pg", o.Disk)
	return &PostgresServer{in, *o}, err
}

func (s *PostgresServer) data() string { return filepath.Join(s.Dir, "data") }

// run runs a program of PostgreSQL's to its end, as the user who will run the
// server.
func (s *PostgresServer) run(program string, args ...string) error {
	return toEnd(Command{Program: program, Args: args, Dir: s.Dir, Unprivileged: true})
}

func (s *PostgresServer) start() error {
	return s.serve(func(port string) Command {
		args := []string{"-D", s.data(), "-p", port, "-k", s.Dir, "-c", "listen_addresses=127.0.0.1",
			"-c", "dynamic_shared_memory_type=mmap"} // a file of its folder: what is elsewhere outlives a kill
		if s.opts.Archive {
			args = append(args, "-c", "archive_mode=on", "-c", "archive_command=cp %p "+s.archive("%f"))
		}
		return Command{Program: "postgres", Dir: s.Dir, Env: s.opts.Env, Unprivileged: true, Args: append(args, s.opts.Args...)}
	}, func() error {
		_, err := s.Query("SELECT 1")
		return err
	})
}

// Query runs SQL as the superuser, over the socket, in the database "postgres".
// It returns what psql prints: a line for a row, columns divided by |.
func (s *PostgresServer) Query(sql string) (string, error) {
	_, port, _ := net.SplitHostPort(s.Addr)
	return answer("psql", "-h", s.Dir, "-p", port, "-U", "postgres", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-XAtqc", sql)
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
	if s.Alive() {
		// An immediate shutdown ends the backends, which SIGKILL would leave
		// behind for a moment.
		p := s.current()
		err = p.Signal(syscall.SIGQUIT)
		select {
		case <-p.Done():
		case <-time.After(10 * time.Second):
		}
	}
	return errors.Join(err, s.instance.Close())
}
