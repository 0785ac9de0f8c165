package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"leasehold/internal/child"
)

// daemon is a server that a schedule starts and ends: on loopback, on a free port, with
// all that it has in one folder.
type daemon struct {
	addr  string
	dir   string
	cmd   *exec.Cmd
	ended chan struct{}
}

// startBound is how long a server may take until it answers.
const startBound = 30 * time.Second

// run starts the program on a port that is free, and waits until ready says nil.
func run(ctx context.Context, dir string, program string, args func(port string) []string, ready func(addr string) error) (*daemon, error) {
	var err error
	for range 5 { // somebody else may take the port first
		// Below the range of outgoing connections, so that a restart finds it free.
		port := strconv.Itoa(12000 + rand.IntN(14000))
		d := &daemon{addr: net.JoinHostPort("127.0.0.1", port), dir: dir}
		l, taken := net.Listen("tcp", d.addr)
		if err = taken; err != nil {
			continue
		}
		l.Close()
		if err = d.launch(program, args(port)); err != nil {
			return nil, err
		}
		if err = d.until(ctx, ready); err == nil {
			return d, nil
		}
		d.kill()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("%s does not start: %w", program, err)
}

func (d *daemon) launch(program string, args []string) error {
	d.cmd, d.ended = exec.Command(program, args...), make(chan struct{})
	d.cmd.Dir = d.dir
	return child.Launch(d.cmd, func() {
		d.cmd.Wait() // its end is what a schedule wants of it
		close(d.ended)
	})
}

func (d *daemon) until(ctx context.Context, ready func(addr string) error) error {
	end := time.Now().Add(startBound)
	for {
		err := ready(d.addr)
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return err
		}
		select {
		case <-d.ended:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (d *daemon) halt() error    { return child.Halt(d.cmd.Process) }
func (d *daemon) proceed() error { return child.Proceed(d.cmd.Process) }

func (d *daemon) kill() {
	d.cmd.Process.Kill() // it may have ended
	<-d.ended
}

// redisServer is where the program is, or what to install.
func redisServer() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", errors.New("redis-server is not installed: install it (Debian: apt install redis-server), or give --server redis://host:6379")
	}
	return path, nil
}

// startRedis starts an empty Redis that keeps nothing on disk.
func startRedis(ctx context.Context, dir string, more ...string) (*daemon, error) {
	path, err := redisServer()
	if err != nil {
		return nil, err
	}
	return run(ctx, dir, path, func(port string) []string { return append(redisArgs(dir, port), more...) }, answers(ctx))
}

func redisArgs(dir, port string) []string {
	return []string{"--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--repl-diskless-sync-delay", "0"}
}

// restart is a crash of a Redis without a disk: it is back, and empty.
func (d *daemon) restart(ctx context.Context) error {
	d.kill()
	_, port, _ := net.SplitHostPort(d.addr)
	if err := d.launch(d.cmd.Path, redisArgs(d.dir, port)); err != nil {
		return err
	}
	return d.until(ctx, answers(ctx))
}

func answers(ctx context.Context) func(string) error {
	return func(addr string) error {
		_, err := command(ctx, addr, "PING")
		return err
	}
}

// startSentinel starts a Sentinel that fails over by itself: soon, once it is told to be hasty. Until
// then a server that a busy machine lets wait is not dead to it.
func startSentinel(ctx context.Context, dir, primary string) (*daemon, error) {
	path, err := redisServer()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(primary)
	file := filepath.Join(dir, "sentinel.conf")
	conf := fmt.Sprintf("bind 127.0.0.1\nsentinel monitor main %s %s 1\nsentinel down-after-milliseconds main 60000\n"+
		"sentinel failover-timeout main 20000\n", host, port)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	return run(ctx, dir, path, func(port string) []string { return []string{file, "--port", port, "--sentinel"} }, answers(ctx))
}

// hasty has a Sentinel take servers that are silent for a moment for dead.
func hasty(ctx context.Context, sentinel string) error {
	_, err := command(ctx, sentinel, "SENTINEL", "SET", "main", "down-after-milliseconds", "300")
	return err
}

// promoted reports whether the Sentinel has promoted the replica. A Sentinel that finds the
// primary dead may find the replica silent, too, where the machine is busy. It then does
// nothing for twice failover-timeout, unless it is told to try again.
func promoted(ctx context.Context, sentinel, replica string) error {
	if err := says(ctx, sentinel, "sentinel", "status=odown"); err == nil {
		_, _ = command(ctx, sentinel, "SENTINEL", "FAILOVER", "main") // an error where it is at it
	}
	return says(ctx, sentinel, "sentinel", "address="+replica)
}

// says asks a server for a section of INFO that has that text.
func says(ctx context.Context, addr, section, text string) error {
	reply, err := command(ctx, addr, "INFO", section)
	if err != nil {
		return err
	}
	info, err := reply.ToString()
	if err == nil && !strings.Contains(info, text) {
		err = errors.New("INFO does not say " + text)
	}
	return err
}

// zookeeperJar is where Debian puts the server; its manifest names the rest.
const zookeeperJar = "/usr/share/java/zookeeper.jar"

func startZooKeeper(ctx context.Context, dir string) (*daemon, error) {
	const advice = ": install ZooKeeper and Java (Debian: apt install zookeeper default-jre-headless), or give --server zookeeper://host:2181"
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, errors.New("java is not installed" + advice)
	}
	if _, err := os.Stat(zookeeperJar); err != nil {
		return nil, errors.New(zookeeperJar + " is not there" + advice)
	}
	const quiet = "log4j.rootLogger=OFF\n"
	if err := os.WriteFile(filepath.Join(dir, "log4j.properties"), []byte(quiet), 0o600); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "zoo.cfg")
	classes := strings.Join([]string{dir, zookeeperJar, "/usr/share/java/slf4j-log4j12.jar", "/usr/share/java/log4j-1.2.jar"}, ":")
	return run(ctx, dir, java, func(port string) []string {
		conf := strings.Join([]string{
			"dataDir=" + dir, "clientPort=" + port, "clientPortAddress=127.0.0.1", "tickTime=500",
			"admin.enableServer=false", "maxClientCnxns=0",
		}, "\n") + "\n"
		os.WriteFile(file, []byte(conf), 0o600) // without it the server says so and ends
		return []string{
			"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.jmx.log4j.disable=true",
			"-Dzookeeper.forceSync=no", "-cp", classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain", file,
		}
	}, func(addr string) error {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Second))
		if _, err := conn.Write([]byte("srvr")); err != nil {
			return err
		}
		answer := make([]byte, 9)
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "Zookeeper" {
			return errors.New("it does not answer as a ZooKeeper")
		}
		return nil
	})
}
