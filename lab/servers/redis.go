package servers

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// RedisOptions are the choices of one Redis server. Nil means the defaults: no
// password, no TLS, nothing on disk.
type RedisOptions struct {
	Password string   // of the default user
	ACL      []string // lines "user name on >password ~* &* +@all"
	TLS      bool     // also listen with TLS, certificate signed by CAFile
	Durable  bool     // append-only file, synced with every write
	Args     []string // further configuration: "--maxmemory", "2mb"
	Env      []string // in addition to this process's
	Host     *Host    // where it runs; nil: here, on loopback
	Disk     *Disk    // where its folder is; nil: where temporary folders are

	cluster  bool
	sentinel string // the content of a Sentinel's configuration
}

// RedisServer is one redis-server or redis-sentinel process.
type RedisServer struct {
	*instance
	TLSAddr string // 127.0.0.1:port, with RedisOptions.TLS
	CAFile  string // PEM of the authority that signed its certificate
	Socket  string // path of its Unix socket

	opts RedisOptions
	args []string

	asking sync.Mutex // one command at a time
	admin  *Conn
}

// Redis starts one server for a test.
func Redis(t TB, o *RedisOptions) *RedisServer {
	t.Helper()
	Need(t, "redis-server")
	s, err := StartRedis(o)
	if err != nil {
		t.Fatalf("redis-server: %v", err)
	}
	closing(t, s.Tail, s.Close)
	return s
}

// StartRedis starts one server. Close ends it and removes its folder.
func StartRedis(o *RedisOptions) (*RedisServer, error) {
	if o == nil {
		o = &RedisOptions{}
	}
	return anew(func() (*RedisServer, error) { return tryRedis(*o) })
}

func tryRedis(o RedisOptions) (_ *RedisServer, err error) {
	in, err := newInstance("redis", o.Disk)
	if err != nil {
		return nil, err
	}
	dir := in.Dir
	s := &RedisServer{instance: in, Socket: filepath.Join(dir, "s"), opts: o}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	bus := 0
	if o.cluster {
		bus = 10000 // where Redis puts the cluster bus; 6.2 cannot be told otherwise
	}
	port, err := s.freePort(bus)
	if err != nil {
		return nil, err
	}
	address, protected := "127.0.0.1", "yes"
	if o.Host != nil {
		address, protected = o.Host.Addr, "no" // whoever can reach it there may
	}
	s.Addr = net.JoinHostPort(address, strconv.Itoa(port))
	conf := []string{
		"bind " + address, "port " + strconv.Itoa(port), "unixsocket " + s.Socket, "unixsocketperm 700",
		"dir " + dir, "daemonize no", "protected-mode " + protected,
	}
	if o.sentinel == "" {
		conf = append(conf, `save ""`, "repl-diskless-sync-delay 0", "repl-diskless-sync yes")
	}
	if o.Durable {
		conf = append(conf, "appendonly yes", "appendfsync always")
	}
	if o.cluster {
		conf = append(conf, "cluster-enabled yes", "cluster-node-timeout 1000",
			"cluster-require-full-coverage no", "cluster-replica-validity-factor 0")
	}
	if o.Password != "" {
		conf = append(conf, "requirepass "+o.Password, "masterauth "+o.Password)
	}
	conf = append(conf, o.ACL...)
	if o.TLS {
		tlsPort, err := s.freePort(0)
		if err != nil {
			return nil, err
		}
		s.TLSAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(tlsPort))
		s.CAFile = filepath.Join(dir, "ca.pem")
		if err := writeCerts(dir); err != nil {
			return nil, err
		}
		conf = append(conf, "tls-port "+strconv.Itoa(tlsPort), "tls-auth-clients no", "tls-ca-cert-file "+s.CAFile,
			"tls-cert-file "+filepath.Join(dir, "cert.pem"), "tls-key-file "+filepath.Join(dir, "key.pem"))
	}
	if o.sentinel != "" {
		conf = append(conf, o.sentinel)
	}
	file := filepath.Join(dir, "conf")
	if err := os.WriteFile(file, []byte(strings.Join(conf, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	s.args = append([]string{file}, o.Args...)
	if o.sentinel != "" {
		s.args = append(s.args, "--sentinel")
	}
	return s, s.start()
}

func (s *RedisServer) start() error {
	os.Remove(s.Socket) // of a killed predecessor
	err := s.launch(Command{Program: "redis-server", Args: s.args, Dir: s.Dir, Env: s.opts.Env, Host: s.opts.Host})
	if err != nil {
		return err
	}
	// The socket lies in our own folder, so whoever answers there is ours; a
	// port could be somebody else's. It answers only after the ports are bound.
	return s.current().Until(startBound, func() error {
		_, err := s.Do("PING")
		return err
	})
}

// Do runs one command as administrator, over the Unix socket. It reconnects
// after a restart.
func (s *RedisServer) Do(args ...string) (any, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.admin == nil {
		c, err := DialRedis(s.Socket, nil)
		if err != nil {
			return nil, err
		}
		if s.opts.Password != "" {
			if _, err := c.Do("AUTH", s.opts.Password); err != nil {
				c.Close()
				return nil, err
			}
		}
		s.admin = c
	}
	v, err := s.admin.Do(args...)
	var answered RedisError
	if err != nil && !errors.As(err, &answered) {
		s.admin.Close()
		s.admin = nil
	}
	return v, err
}

// Info is one field of INFO.
func (s *RedisServer) Info(field string) (string, error) {
	v, err := s.Do("INFO", "everything")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(v.(string)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("INFO has no field %s", field)
}

// Role is "master", "slave" or "sentinel".
func (s *RedisServer) Role() (string, error) {
	v, err := s.Do("ROLE")
	if err != nil {
		return "", err
	}
	return v.([]any)[0].(string), nil
}

// Restart kills the server and starts it again at the same addresses. What it
// had on disk is kept (see RedisOptions.Durable) unless forget is true.
func (s *RedisServer) Restart(forget bool) error {
	return s.RestartWith(func(dir string) error {
		if !forget {
			return nil
		}
		for _, f := range []string{"dump.rdb", "appendonlydir", "appendonly.aof"} {
			if err := os.RemoveAll(filepath.Join(dir, f)); err != nil {
				return err
			}
		}
		return nil
	})
}

// RestartWith is Restart with something done to the server's folder while it is
// down.
func (s *RedisServer) RestartWith(down func(dir string) error) error {
	if err := s.Kill(); err != nil {
		return err
	}
	if err := down(s.Dir); err != nil {
		return err
	}
	return s.start()
}

// RepairAOF cuts off what is damaged at the end of the append only file, as a person does with
// redis-check-aof --fix. It is for [RedisServer.RestartWith], after a power cut: the file may end in
// zeros then, and Redis refuses to start. With appendfsync always, nothing there was answered.
func RepairAOF(dir string) error {
	file := filepath.Join(dir, "appendonlydir", "appendonly.aof.manifest")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		file = filepath.Join(dir, "appendonly.aof") // before Redis 7
	}
	check := exec.Command("redis-check-aof", "--fix", file)
	check.Stdin = strings.NewReader("y\n")
	if out, err := check.CombinedOutput(); err != nil {
		return fmt.Errorf("redis-check-aof --fix %s: %w\n%s", file, err, out)
	}
	return nil
}

// Follow has this server be the replica of the one at an address, and waits until it has what that
// one has.
func (s *RedisServer) Follow(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if _, err := s.Do("REPLICAOF", host, port); err != nil {
		return err
	}
	return until(startBound, func() error {
		status, err := s.Info("master_link_status")
		if err == nil && status != "up" {
			err = fmt.Errorf("its link to %s is %s", addr, status)
		}
		return err
	})
}

// Lead has a replica be a primary, with what it has received.
func (s *RedisServer) Lead() error {
	_, err := s.Do("REPLICAOF", "NO", "ONE")
	return err
}

// TLS is a client's configuration that trusts this server.
func (s *RedisServer) TLS() (*tls.Config, error) { return clientTLS(s.CAFile) }

// Close kills the server and removes its folder. Closing twice is allowed.
func (s *RedisServer) Close() error {
	err := s.instance.Close()
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.admin != nil {
		s.admin.Close()
		s.admin = nil
	}
	return err
}
