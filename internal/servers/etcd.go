package servers

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// EtcdOptions are the choices of an etcd member. Nil means the defaults: no
// users, no TLS.
type EtcdOptions struct {
	TLS  bool     // clients connect with TLS, certificate signed by CAFile
	Old  bool     // Debian's etcd 3.4 instead of the one that `make deps` builds
	Args []string // further flags: "--quota-backend-bytes=1000000"
	Host *Host    // where it runs; nil: here, on loopback
}

// EtcdServer is one etcd process. It elects within half a second, so that
// leases may be as short as a second.
type EtcdServer struct {
	Addr   string // host:port for clients
	CAFile string // PEM of the authority that signed its certificate
	Dir    string

	opts EtcdOptions
	name string
	peer string // URL for the other members
	args []string
	http *http.Client

	mu      sync.Mutex
	process *Process
}

// EtcdSetup is one cluster.
type EtcdSetup struct {
	Members []*EtcdServer
}

// Etcd starts a cluster of one member for a test.
func Etcd(t TB, o *EtcdOptions) *EtcdServer {
	t.Helper()
	return etcdFor(t, o, nil).Members[0]
}

// EtcdCluster starts three members for a test.
func EtcdCluster(t TB, o *EtcdOptions) *EtcdSetup {
	t.Helper()
	return etcdFor(t, o, make([]*Host, 3))
}

// EtcdClusterOn is EtcdCluster with a member on each of the first three hosts.
func EtcdClusterOn(t TB, n *Network, o *EtcdOptions) *EtcdSetup {
	t.Helper()
	return etcdFor(t, o, n.Hosts[:3])
}

func etcdFor(t TB, o *EtcdOptions, hosts []*Host) *EtcdSetup {
	t.Helper()
	if o == nil {
		o = &EtcdOptions{}
	}
	if _, err := etcdBinary(o.Old); err != nil {
		Missing(t, err.Error())
	}
	s, err := startEtcd(o, hosts)
	if err != nil {
		t.Fatalf("etcd: %v", err)
	}
	closing(t, s.Tail, s.Close)
	return s
}

// StartEtcd starts one member, for a program.
func StartEtcd(o *EtcdOptions) (*EtcdServer, error) {
	if o == nil {
		o = &EtcdOptions{}
	}
	s, err := startEtcd(o, nil)
	if err != nil {
		return nil, err
	}
	return s.Members[0], nil
}

// etcdBinary: the old one is where Debian puts it. The one that is built must
// not be confused with it, so it is looked for in its own place alone.
func etcdBinary(old bool) (string, error) {
	if old {
		const debian = "/usr/bin/etcd"
		if _, err := os.Stat(debian); err != nil {
			return "", fmt.Errorf("the etcd-server of Debian is not installed: run `make deps`")
		}
		return debian, nil
	}
	if path := built("etcd"); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("etcd is not built: run `make deps`")
}

func startEtcd(o *EtcdOptions, hosts []*Host) (*EtcdSetup, error) {
	if len(hosts) == 0 {
		hosts = []*Host{o.Host}
	}
	var err error
	for range 5 { // another process may have taken a port in between
		var s *EtcdSetup
		if s, err = tryEtcd(*o, hosts); err == nil || !strings.Contains(err.Error(), "ddress already in use") {
			return s, err
		}
	}
	return nil, err
}

func tryEtcd(o EtcdOptions, hosts []*Host) (_ *EtcdSetup, err error) {
	s := &EtcdSetup{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	var cluster []string
	for i, host := range hosts {
		m, err := newEtcd(o, host, fmt.Sprintf("m%d", i+1))
		if m != nil {
			s.Members = append(s.Members, m)
		}
		if err != nil {
			return nil, err
		}
		cluster = append(cluster, m.name+"="+m.peer)
	}
	for _, m := range s.Members {
		m.args = append(m.args, "--initial-cluster="+strings.Join(cluster, ","))
		m.args = append(m.args, o.Args...)
		if err := m.launch(); err != nil {
			return nil, err
		}
	}
	return s, s.Healthy(startBound)
}

func newEtcd(o EtcdOptions, host *Host, name string) (*EtcdServer, error) {
	o.Host = host
	dir, err := os.MkdirTemp("", "lh-etcd")
	if err != nil {
		return nil, err
	}
	m := &EtcdServer{Dir: dir, opts: o, name: name}
	address := "127.0.0.1"
	transport := &http.Transport{DisableKeepAlives: true}
	if host != nil {
		address, transport.DialContext = host.Addr, host.Dial
	}
	m.http = &http.Client{Transport: transport, Timeout: 2 * time.Second}
	port, err1 := freePort(0)
	peerPort, err2 := freePort(0)
	if err := errors.Join(err1, err2); err != nil {
		return m, err
	}
	m.Addr = net.JoinHostPort(address, strconv.Itoa(port))
	m.peer = "http://" + net.JoinHostPort(address, strconv.Itoa(peerPort))
	clients := m.URL()
	m.args = []string{
		"--name=" + name, "--data-dir=" + filepath.Join(dir, "data"), "--log-level=warn",
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + m.peer, "--initial-advertise-peer-urls=" + m.peer,
		"--heartbeat-interval=50", "--election-timeout=500",
	}
	if o.TLS {
		m.CAFile = filepath.Join(dir, "ca.pem")
		if err := writeCerts(dir); err != nil {
			return m, err
		}
		config, err := clientTLS(m.CAFile)
		if err != nil {
			return m, err
		}
		transport.TLSClientConfig = config
		m.args = append(m.args, "--cert-file="+filepath.Join(dir, "cert.pem"), "--key-file="+filepath.Join(dir, "key.pem"))
	}
	return m, nil
}

func (m *EtcdServer) launch() error {
	program, err := etcdBinary(m.opts.Old)
	if err != nil {
		return err
	}
	p, err := Start(Command{Program: program, Args: m.args, Dir: m.Dir, Host: m.opts.Host})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.process = p
	return nil
}

// URL is where clients connect.
func (m *EtcdServer) URL() string {
	scheme := "http"
	if m.opts.TLS {
		scheme = "https"
	}
	return (&url.URL{Scheme: scheme, Host: m.Addr}).String()
}

// TLS is a client's configuration that trusts this server.
func (m *EtcdServer) TLS() (*tls.Config, error) { return clientTLS(m.CAFile) }

// IsLeader asks the member whether it leads.
func (m *EtcdServer) IsLeader() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL()+"/v3/maintenance/status", strings.NewReader("{}"))
	if err != nil {
		return false, err
	}
	answer, err := m.http.Do(r)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	var status struct {
		Header struct {
			MemberID string `json:"member_id"`
		}
		Leader string
	}
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil {
		return false, err
	}
	return status.Leader != "" && status.Leader == status.Header.MemberID, nil
}

// Metric is one of the figures that the member shows to Prometheus: the sum over
// the labels that pass.
func (m *EtcdServer) Metric(name string, pass func(labels string) bool) (sum float64, err error) {
	answer, err := m.http.Get(m.URL() + "/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		i := strings.LastIndexByte(rest, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[i:]), 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", line, err)
		}
		if pass == nil || pass(rest[:i]) {
			sum += value
		}
	}
	return sum, nil
}

// healthy asks the member whether it can commit.
func (m *EtcdServer) healthy() error {
	answer, err := m.http.Get(m.URL() + "/health")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var health struct{ Health, Reason string }
	if err := json.NewDecoder(answer.Body).Decode(&health); err != nil {
		return err
	}
	if health.Health != "true" {
		return fmt.Errorf("%s is not healthy: %s", m.name, health.Reason)
	}
	return nil
}

// Kill ends the member with SIGKILL.
func (m *EtcdServer) Kill() error { return m.current().Kill() }

// Stop halts the member with SIGSTOP.
func (m *EtcdServer) Stop() error { return m.current().Stop() }

// Cont lets a stopped member go on.
func (m *EtcdServer) Cont() error { return m.current().Cont() }

// Alive reports whether its process runs.
func (m *EtcdServer) Alive() bool { return m.current().Alive() }

// Tail is the end of its log.
func (m *EtcdServer) Tail() string { return m.current().Tail() }

func (m *EtcdServer) current() *Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// Restart kills the member and starts it again, with what it had on disk, and
// waits until it can commit.
func (m *EtcdServer) Restart() error {
	if err := m.Kill(); err != nil {
		return err
	}
	if err := m.launch(); err != nil {
		return err
	}
	return m.current().Until(startBound, m.healthy)
}

// Backup kills the member and returns a copy of its data, which Restore puts
// in the place of what it has by then: what a backup made by hand does.
func (m *EtcdServer) Backup() (dir string, err error) {
	if err := m.Kill(); err != nil {
		return "", err
	}
	dir = filepath.Join(m.Dir, "backup")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(m.Dir, "data"))); err != nil {
		return "", err
	}
	return dir, m.Restart()
}

// Restore puts a backup back and starts the member with it.
func (m *EtcdServer) Restore(backup string) error {
	if err := m.Kill(); err != nil {
		return err
	}
	data := filepath.Join(m.Dir, "data")
	if err := errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(backup)), os.Chmod(data, 0o700)); err != nil {
		return err
	}
	return m.Restart()
}

// Close kills the member and removes its folder. Closing twice is allowed.
func (m *EtcdServer) Close() error {
	var err error
	if p := m.current(); p != nil {
		err = p.Kill()
	}
	return errors.Join(err, os.RemoveAll(m.Dir))
}

// Healthy waits until every member that lives can commit.
func (s *EtcdSetup) Healthy(bound time.Duration) error {
	for _, m := range s.Members {
		if !m.Alive() {
			continue
		}
		if err := m.current().Until(bound, m.healthy); err != nil {
			return err
		}
	}
	return nil
}

// Leader is the living member that leads.
func (s *EtcdSetup) Leader() (leader *EtcdServer, err error) {
	return leader, until(startBound, func() error {
		for _, m := range s.Members {
			if !m.Alive() {
				continue
			}
			if leads, err := m.IsLeader(); err == nil && leads {
				leader = m
				return nil
			}
		}
		return errors.New("no member leads")
	})
}

// Addrs are the members' addresses for clients.
func (s *EtcdSetup) Addrs() (addrs []string) {
	for _, m := range s.Members {
		addrs = append(addrs, m.Addr)
	}
	return addrs
}

// Tail is the end of every log.
func (s *EtcdSetup) Tail() string {
	var b strings.Builder
	for _, m := range s.Members {
		if m.current() != nil {
			b.WriteString(m.Tail() + "\n")
		}
	}
	return b.String()
}

// Close ends all members.
func (s *EtcdSetup) Close() error {
	var err error
	for _, m := range s.Members {
		err = errors.Join(err, m.Close())
	}
	return err
}
