package servers

import (
	"errors"
	"path/filepath"
)

// MariaDBOptions are the choices of one MariaDB server. Nil means the defaults:
// "root" has no password, and every commit is synced.
type MariaDBOptions struct {
	Args []string // further options: "--max-connections=500"
	Env  []string // in addition to this process's
	Disk *Disk    // where its folder is; nil: where temporary folders are
}

// MariaDBServer is one MariaDB server with the user "root" and an empty database
// "test".
type MariaDBServer struct {
	*instance
	opts MariaDBOptions
}

// MariaDB starts one server for a test.
func MariaDB(t TB, o *MariaDBOptions) *MariaDBServer {
	t.Helper()
	Need(t, "mariadbd", "mariadb-install-db", "mariadb")
	s, err := StartMariaDB(o)
	if err != nil {
		t.Fatalf("mariadb: %v", err)
	}
	closing(t, s.Tail, s.Close)
	return s
}

// StartMariaDB makes a folder of databases and starts its server. Close ends it and
// removes the folder.
func StartMariaDB(o *MariaDBOptions) (*MariaDBServer, error) {
	if o == nil {
		o = &MariaDBOptions{}
	}
	in, err := newInstance("my", o.Disk)
	if err != nil {
		return nil, err
	}
	s := &MariaDBServer{in, *o}
	err = s.install()
	if err == nil {
		err = s.start()
	}
	if err == nil {
		_, err = s.Query("CREATE DATABASE test")
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *MariaDBServer) data() string   { return filepath.Join(s.Dir, "data") }
func (s *MariaDBServer) socket() string { return filepath.Join(s.Dir, "socket") }

// env has every server use its own folder for temporary tables: at its start one
// deletes those that it finds, which are another server's.
func (s *MariaDBServer) env() []string { return append([]string{"TMPDIR=" + s.Dir}, s.opts.Env...) }

// install makes the tables of the server's own.
func (s *MariaDBServer) install() error {
	program, args := s.installing()
	return toEnd(Command{Program: program, Args: args, Dir: s.Dir, Env: s.env(), Unprivileged: true})
}

func (s *MariaDBServer) start() error {
	return s.serve(func(port string) Command {
		program, args := s.serving(port)
		return Command{Program: program, Args: append(args, s.opts.Args...), Dir: s.Dir, Env: s.env(), Unprivileged: true}
	}, func() error {
		_, err := s.Query("SELECT 1")
		return err
	})
}

// Query runs SQL as root, over the socket, in no database. It returns what the
// client prints: a line for a row, columns divided by tabs.
func (s *MariaDBServer) Query(sql string) (string, error) {
	return answer("mariadb", "--no-defaults", "--socket="+s.socket(), "--user=root", "--batch", "--skip-column-names", "--execute="+sql)
}

// URL names a database of this server and a user: "" is "root" and "test".
func (s *MariaDBServer) URL(user, database string) string {
	if user == "" {
		user = "root"
	}
	if database == "" {
		database = "test"
	}
	return "mysql://" + user + "@" + s.Addr + "/" + database
}

// Restart kills the server and starts it again at the same address.
func (s *MariaDBServer) Restart() error {
	if err := s.Kill(); err != nil {
		return err
	}
	return s.start()
}
