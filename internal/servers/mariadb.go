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

// MariaDBOptions are the choices of one MariaDB server. Nil means the defaults:
// "root" has no password, and every commit is synced.
type MariaDBOptions struct {
	Args []string // further options: "--max-connections=500"
	Env  []string // in addition to this process's
}

// MariaDBServer is one MariaDB server with the user "root" and an empty database
// "test".
type MariaDBServer struct {
	Addr string // 127.0.0.1:port
	Dir  string

	opts MariaDBOptions

	mu      sync.Mutex
	process *Process
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
	dir, err := os.MkdirTemp("", "lh-my") // a short name: a socket's path may have 107 bytes
	if err != nil {
		return nil, err
	}
	s := &MariaDBServer{Dir: dir, opts: *o}
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
	p, err := Start(Command{Program: program, Args: args, Dir: s.Dir, Env: s.env(), Unprivileged: true})
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-time.After(startBound):
		return errors.Join(errors.New(program+" hangs"), p.Kill())
	}
	if !p.cmd.ProcessState.Success() {
		out, _ := os.ReadFile(p.log) // its end is advice, and says nothing of what happened
		return fmt.Errorf("%s: %v\n%s", program, p.cmd.ProcessState, out)
	}
	return nil
}

// start finds a port at the first start and keeps it.
func (s *MariaDBServer) start() error {
	fresh := s.Addr == ""
	return until(startBound, func() error { // a port may be taken by somebody in between
		if fresh {
			port, err := freePort(0)
			if err != nil {
				return err
			}
			s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
		_, port, _ := net.SplitHostPort(s.Addr)
		program, args := s.serving(port)
		p, err := Start(Command{Program: program, Args: append(args, s.opts.Args...), Dir: s.Dir, Env: s.env(), Unprivileged: true})
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

// Query runs SQL as root, over the socket, in no database. It returns what the
// client prints: a line for a row, columns divided by tabs.
func (s *MariaDBServer) Query(sql string) (string, error) {
	client, err := find("mariadb")
	if err != nil {
		return "", Installed("mariadb")
	}
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	out, err := exec.CommandContext(ctx, client, "--no-defaults", "--socket="+s.socket(), "--user=root",
		"--batch", "--skip-column-names", "--execute="+sql).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("mariadb: %w: %s", err, out)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
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

// Kill ends the server with SIGKILL.
func (s *MariaDBServer) Kill() error { return s.current().Kill() }

// Stop halts the server with SIGSTOP.
func (s *MariaDBServer) Stop() error { return s.current().Stop() }

// Cont lets a stopped server go on.
func (s *MariaDBServer) Cont() error { return s.current().Cont() }

// PID is the process id.
func (s *MariaDBServer) PID() int { return s.current().PID() }

// Tail is the end of its log.
func (s *MariaDBServer) Tail() string {
	if p := s.current(); p != nil {
		return p.Tail()
	}
	return "not started"
}

func (s *MariaDBServer) current() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Restart kills the server and starts it again at the same address.
func (s *MariaDBServer) Restart() error {
	if err := s.Kill(); err != nil {
		return err
	}
	return s.start()
}

// Close ends the server and removes its folder. Closing twice is allowed.
func (s *MariaDBServer) Close() error {
	var err error
	if p := s.current(); p != nil && p.Alive() {
		err = p.Signal(syscall.SIGKILL) // its folder goes with it: nothing is to be stored
		<-p.Done()
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}
