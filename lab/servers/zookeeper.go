package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// zookeeperJar is where Debian puts the server; its manifest names the rest.
const zookeeperJar = "/usr/share/java/zookeeper.jar"

// DefaultTick is ZooKeeperOptions.Tick where it is zero: short, so that sessions
// of tests may be. ZooKeeper's own is two seconds.
const DefaultTick = 200 * time.Millisecond

// ZooKeeperOptions are the choices of ZooKeeper servers. Nil means the defaults.
type ZooKeeperOptions struct {
	Tick   time.Duration // its unit of time: sessions last from 2 to 20 ticks
	Config []string      // further lines of configuration: "syncLimit=10"
	Flags  []string      // of the Java machine: "-Dzookeeper.digest.enabled=false"
	Disk   *Disk         // where their folders are; nil: where temporary folders are
}

// NoForceSync is the flag with which a server answers before its disk has what it wrote. A
// server has it unless it is on a Disk.
const NoForceSync = "-Dzookeeper.forceSync=no"

// ZooKeeperServer is one ZooKeeper process.
type ZooKeeperServer struct {
	*instance
	opts  ZooKeeperOptions
	host  *Host
	id    int
	peers [2]int // ports for the other servers: quorum and election
}

// ZooKeeper starts one server for a test.
func ZooKeeper(t TB, o *ZooKeeperOptions) *ZooKeeperServer {
	t.Helper()
	NeedZooKeeper(t)
	s, err := StartZooKeeper(o)
	if err != nil {
		t.Fatalf("ZooKeeper: %v", err)
	}
	closing(t, s.Tail, s.Close)
	return s
}

// NeedZooKeeper is Need of what ZooKeeper servers need.
func NeedZooKeeper(t TB) {
	t.Helper()
	Need(t, "java")
	if err := zookeeperInstalled(); err != nil {
		Missing(t, err.Error())
	}
}

func zookeeperInstalled() error {
	if _, err := os.Stat(zookeeperJar); err != nil {
		return errors.New("ZooKeeper is not installed: run `make deps`")
	}
	return nil
}

// StartZooKeeper starts one server. Close ends it and removes its folder.
func StartZooKeeper(o *ZooKeeperOptions) (*ZooKeeperServer, error) {
	all, err := StartEnsemble(o, nil)
	if err != nil {
		return nil, err
	}
	return all.Servers[0], nil
}

// Ensemble is some ZooKeeper servers that elect a leader.
type Ensemble struct {
	Servers []*ZooKeeperServer
}

// ZooKeeperEnsemble starts three servers for a test.
func ZooKeeperEnsemble(t TB, o *ZooKeeperOptions) *Ensemble {
	t.Helper()
	return ensembleOn(t, make([]*Host, 3), o)
}

// ZooKeeperEnsembleOn starts one server on each host of a network.
func ZooKeeperEnsembleOn(t TB, hosts []*Host, o *ZooKeeperOptions) *Ensemble {
	t.Helper()
	return ensembleOn(t, hosts, o)
}

func ensembleOn(t TB, hosts []*Host, o *ZooKeeperOptions) *Ensemble {
	t.Helper()
	NeedZooKeeper(t)
	e, err := StartEnsemble(o, hosts)
	if err != nil {
		t.Fatalf("ZooKeeper: %v", err)
	}
	closing(t, e.Tail, e.Close)
	return e
}

// StartEnsemble starts one server on each host (nil: here), which is ready when
// they have elected a leader. Without hosts it is one server that stands alone.
func StartEnsemble(o *ZooKeeperOptions, hosts []*Host) (*Ensemble, error) {
	if err := zookeeperInstalled(); err != nil {
		return nil, err
	}
	var opts ZooKeeperOptions
	if o != nil {
		opts = *o
	}
	if opts.Tick == 0 {
		opts.Tick = DefaultTick
	}
	if hosts == nil {
		hosts = make([]*Host, 1)
	}
	return anew(func() (*Ensemble, error) { return tryEnsemble(opts, hosts) })
}

func tryEnsemble(o ZooKeeperOptions, hosts []*Host) (_ *Ensemble, err error) {
	e := &Ensemble{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	for i, host := range hosts {
		in, err := newInstance("zookeeper", o.Disk)
		if err != nil {
			return nil, err
		}
		s := &ZooKeeperServer{instance: in, opts: o, host: host, id: i + 1}
		e.Servers = append(e.Servers, s)
		var ports [3]int
		for j := range ports {
			if ports[j], err = s.freePort(0); err != nil {
				return nil, err
			}
		}
		s.Addr = net.JoinHostPort(s.ip(), strconv.Itoa(ports[0]))
		s.peers = [2]int{ports[1], ports[2]}
	}
	for _, s := range e.Servers {
		if err := s.configure(e.Servers); err != nil {
			return nil, err
		}
		if err := s.start(); err != nil {
			return nil, err
		}
	}
	for _, s := range e.Servers {
		if err := s.ready(); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (s *ZooKeeperServer) ip() string {
	if s.host != nil {
		return s.host.Addr
	}
	return "127.0.0.1"
}

func (s *ZooKeeperServer) configure(all []*ZooKeeperServer) error {
	_, port, _ := net.SplitHostPort(s.Addr)
	conf := []string{
		"dataDir=" + s.Dir, "clientPort=" + port, "clientPortAddress=" + s.ip(),
		fmt.Sprintf("tickTime=%d", s.opts.Tick.Milliseconds()), "initLimit=50", "syncLimit=5",
		"admin.enableServer=false", "4lw.commands.whitelist=*", "maxClientCnxns=0",
	}
	if len(all) > 1 {
		for _, one := range all {
			conf = append(conf, fmt.Sprintf("server.%d=%s:%d:%d", one.id, one.ip(), one.peers[0], one.peers[1]))
		}
	}
	conf = append(conf, s.opts.Config...)
	const logging = "log4j.rootLogger=WARN,out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n" +
		"log4j.appender.out.layout=org.apache.log4j.PatternLayout\nlog4j.appender.out.layout.ConversionPattern=%d{ABSOLUTE} %p %m%n\n"
	return errors.Join(
		os.WriteFile(filepath.Join(s.Dir, "zoo.cfg"), []byte(strings.Join(conf, "\n")+"\n"), 0o600),
		os.WriteFile(filepath.Join(s.Dir, "myid"), []byte(strconv.Itoa(s.id)), 0o600),
		os.WriteFile(filepath.Join(s.Dir, "log4j.properties"), []byte(logging), 0o600),
	)
}

func (s *ZooKeeperServer) start() error {
	args := []string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.jmx.log4j.disable=true",
	}
	if s.opts.Disk == nil {
		args = append(args, NoForceSync) // its folder does not survive the machine, so nothing need reach the disk
	}
	args = append(args, s.opts.Flags...)
	// log4j speaks before ZooKeeper, so that a server which cannot start says why.
	path := strings.Join([]string{s.Dir, zookeeperJar, "/usr/share/java/slf4j-log4j12.jar", "/usr/share/java/log4j-1.2.jar"}, ":")
	args = append(args, "-cp", path, "org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(s.Dir, "zoo.cfg"))
	return s.launch(Command{Program: "java", Args: args, Dir: s.Dir, Host: s.host})
}

// ready waits until it serves clients. Its configuration names a folder of ours,
// so whoever answers so is ours; a port could be somebody else's.
func (s *ZooKeeperServer) ready() error {
	return s.current().Until(startBound, func() error {
		conf, err := s.Ask("conf")
		if err == nil && !strings.Contains(conf, s.Dir) {
			err = fmt.Errorf("another server has its port: ddress already in use: %s", conf)
		}
		if err == nil {
			_, err = s.Mode()
		}
		return err
	})
}

// Ask sends one of ZooKeeper's commands of four letters.
func (s *ZooKeeperServer) Ask(word string) (string, error) {
	if s.host != nil {
		return askZooKeeper(s.host.Dial, s.Addr, word)
	}
	return AskZooKeeper(s.Addr, word)
}

// AskZooKeeper is Ask of whatever server has that address.
func AskZooKeeper(addr, word string) (string, error) {
	return askZooKeeper((&net.Dialer{}).DialContext, addr, word)
}

type dialing func(ctx context.Context, network, addr string) (net.Conn, error)

// askZooKeeper asks twice if there is no answer in time. A command that reads what requests
// change at that moment ("wchp", "mntr") may fail in the server, which then neither answers
// nor closes the connection.
func askZooKeeper(dial dialing, addr, word string) (string, error) {
	text, err := askOnce(dial, addr, word)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		text, err = askOnce(dial, addr, word)
	}
	return text, err
}

func askOnce(dial dialing, addr, word string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := dial(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	b, err := io.ReadAll(c)
	return string(b), err
}

// Mode is "standalone", "leader" or "follower".
func (s *ZooKeeperServer) Mode() (string, error) { return s.field("srvr", "Mode: ") }

// Zxid is the last transaction that it knows, in hexadecimal.
func (s *ZooKeeperServer) Zxid() (string, error) { return s.field("srvr", "Zxid: ") }

// Monitored is one figure of "mntr": "zk_znode_count".
func (s *ZooKeeperServer) Monitored(name string) (int, error) {
	v, err := s.field("mntr", name+"\t")
	if err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(v, 64)
	return int(f), err
}

func (s *ZooKeeperServer) field(word, prefix string) (string, error) {
	text, err := s.Ask(word)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
			return v, nil
		}
	}
	return "", fmt.Errorf("%q says nothing of %q: %s", word, prefix, text)
}

// Restart kills the server and starts it again at the same address, with its
// data unless forget is true.
func (s *ZooKeeperServer) Restart(forget bool) error {
	if err := s.Kill(); err != nil {
		return err
	}
	if forget {
		if err := os.RemoveAll(s.data()); err != nil {
			return err
		}
	}
	if err := s.start(); err != nil {
		return err
	}
	return s.ready()
}

// Backup kills all servers and returns copies of their data, which Restore puts in the
// place of what they have by then.
func (e *Ensemble) Backup() (dirs []string, err error) {
	if err := e.each((*ZooKeeperServer).Kill); err != nil {
		return nil, err
	}
	for _, s := range e.Servers {
		dir := filepath.Join(s.Dir, "backup")
		if err := os.CopyFS(dir, os.DirFS(s.data())); err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, e.each(func(s *ZooKeeperServer) error { return s.Restart(false) })
}

// Restore puts copies back, and starts the servers with them when all were ended: one
// that went on would tell the others what they are to have forgotten.
func (e *Ensemble) Restore(copies []string) error {
	if err := e.each((*ZooKeeperServer).Kill); err != nil {
		return err
	}
	for i, s := range e.Servers {
		if err := errors.Join(os.RemoveAll(s.data()), os.CopyFS(s.data(), os.DirFS(copies[i]))); err != nil {
			return err
		}
	}
	return e.each(func(s *ZooKeeperServer) error { return s.Restart(false) })
}

// each does the same to all servers at once.
func (e *Ensemble) each(do func(*ZooKeeperServer) error) error {
	errs := make([]error, len(e.Servers))
	var all sync.WaitGroup
	for i, s := range e.Servers {
		all.Go(func() { errs[i] = do(s) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *ZooKeeperServer) data() string { return filepath.Join(s.Dir, "version-2") }

// Leader is the server that leads.
func (e *Ensemble) Leader() (*ZooKeeperServer, error) {
	for _, s := range e.Servers {
		if mode, err := s.Mode(); err == nil && mode == "leader" {
			return s, nil
		}
	}
	return nil, errors.New("no server leads")
}

// Addrs are the addresses of the servers.
func (e *Ensemble) Addrs() (addrs []string) {
	for _, s := range e.Servers {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Tail is the end of every log.
func (e *Ensemble) Tail() string { return tails(e.Servers) }

// Close ends all servers.
func (e *Ensemble) Close() error { return closeAll(e.Servers) }
