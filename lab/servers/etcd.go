package servers

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// EtcdOptions are the choices of an etcd member. Nil means the defaults: no
// users, no TLS.
type EtcdOptions struct {
	TLS  bool     // clients connect with TLS, certificate signed by CAFile
	Old  bool     // Debian's etcd 3.4 instead of the one that `make deps` builds
	Args []string // further flags: "--quota-backend-bytes=1000000"
	Host *Host    // where it runs; nil: here, on loopback
	Disk *Disk    // where its folder is; nil: where temporary folders are
}

// EtcdServer is one etcd process. It elects within half a second, so that
// leases may be as short as a second.
type EtcdServer struct {
	*instance
	CAFile string // PEM of the authority that signed its certificate

	opts EtcdOptions
	name string
	peer string // URL for the other members
	args []string
	http *http.Client
}

// Etcd starts a cluster of one member for a test.
func Etcd(t TB, o *EtcdOptions) *EtcdServer {
	t.Helper()
	return etcdFor(t, o, nil).Members[0]
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
	return anew(func() (*EtcdSetup, error) { return tryEtcd(*o, hosts) })
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
		if err := m.start(); err != nil {
			return nil, err
		}
	}
	return s, s.Healthy(startBound)
}

func newEtcd(o EtcdOptions, host *Host, name string) (*EtcdServer, error) {
	o.Host = host
	in, err := newInstance("etcd", o.Disk)
	if err != nil {
		return nil, err
	}
	dir := in.Dir
	m := &EtcdServer{instance: in, opts: o, name: name}
	address := "127.0.0.1"
	transport := &http.Transport{DisableKeepAlives: true}
	if host != nil {
		address, transport.DialContext = host.Addr, host.Dial
	}
	m.http = &http.Client{Transport: transport, Timeout: 2 * time.Second}
	port, err1 := m.freePort(0)
	peerPort, err2 := m.freePort(0)
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

func (m *EtcdServer) start() error {
	program, err := etcdBinary(m.opts.Old)
	if err != nil {
		return err
	}
	return m.launch(Command{Program: program, Args: m.args, Dir: m.Dir, Host: m.opts.Host})
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

// Restart kills the member and starts it again, with what it had on disk, and
// waits until it can commit.
func (m *EtcdServer) Restart() error {
	if err := m.Kill(); err != nil {
		return err
	}
	if err := m.start(); err != nil {
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
	if dir, err = m.copied(); err != nil {
		return "", err
	}
	return dir, m.Restart()
}

// Restore puts a backup back and starts the member with it.
func (m *EtcdServer) Restore(backup string) error {
	if err := m.Kill(); err != nil {
		return err
	}
	if err := m.replace(backup); err != nil {
		return err
	}
	return m.Restart()
}

// copied copies the data of a member that was killed.
func (m *EtcdServer) copied() (dir string, err error) {
	dir = filepath.Join(m.Dir, "backup")
	return dir, os.CopyFS(dir, os.DirFS(filepath.Join(m.Dir, "data")))
}

// replace puts a copy in the place of the data of a member that was killed.
func (m *EtcdServer) replace(backup string) error {
	data := filepath.Join(m.Dir, "data")
	return errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(backup)), os.Chmod(data, 0o700))
}
