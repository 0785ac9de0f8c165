package servers

import (
	"bufio"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("LEASEHOLD_SERVERS_CHILD") != "" {
		s, err := StartRedis(nil)
		if err != nil {
			os.Stdout.WriteString("error: " + err.Error() + "\n")
			os.Exit(1)
		}
		os.Stdout.WriteString(strconv.Itoa(s.PID()) + " " + s.Dir + "\n")
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestRedisKillStopRestart(t *testing.T) {
	r := Redis(t, &RedisOptions{Durable: true, Password: "secret", TLS: true})
	do := func(args ...string) any {
		t.Helper()
		v, err := r.Do(args...)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return v
	}
	do("SET", "k", "v")
	if err := r.Restart(false); err != nil {
		t.Fatal(err)
	}
	if v := do("GET", "k"); v != "v" {
		t.Errorf("after a restart with its data: %v", v)
	}
	if err := r.Restart(true); err != nil {
		t.Fatal(err)
	}
	if v := do("GET", "k"); v != nil {
		t.Errorf("after a restart without its data: %v", v)
	}
	config, err := r.TLS()
	if err != nil {
		t.Fatal(err)
	}
	c, err := DialRedis(r.TLSAddr, config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var answered RedisError
	if _, err := c.Do("PING"); !errors.As(err, &answered) || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("without a password: %v", err)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := r.Cont(); err != nil {
		t.Fatal(err)
	}
	do("PING")
}

func TestARedisWhoseFileEndsInZerosStartsOnceRepaired(t *testing.T) {
	Need(t, "redis-check-aof")
	r := Redis(t, &RedisOptions{Durable: true})
	if _, err := r.Do("SET", "k", "v"); err != nil {
		t.Fatal(err)
	}
	zeros := func(dir string) error {
		files, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
		if err != nil || len(files) == 0 { // before Redis 7
			files = []string{filepath.Join(dir, "appendonly.aof")}
		}
		f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(make([]byte, 100))
		return errors.Join(err, f.Close())
	}
	if err := r.RestartWith(zeros); err == nil {
		t.Fatal("Redis starts with zeros at the end of its file: nothing has to be repaired")
	}
	if err := r.RestartWith(RepairAOF); err != nil {
		t.Fatal(err)
	}
	if v, err := r.Do("GET", "k"); v != "v" {
		t.Errorf("GET = %v, %v after the repair", v, err)
	}
}

func TestServerDiesWithAProcessThatWasKilled(t *testing.T) {
	Need(t, "redis-server")
	if !diesWithParent {
		Missing(t, "only Linux ends children with their parent")
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "LEASEHOLD_SERVERS_CHILD=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	f := strings.Fields(said)
	if err != nil || len(f) != 2 {
		child.Process.Kill()
		child.Wait()
		t.Fatalf("the child said %q, %v", said, err)
	}
	defer os.RemoveAll(f[1])
	child.Process.Kill()
	child.Wait()
	pid, _ := strconv.Atoi(f[0])
	err = until(startBound, func() error {
		// Its new parent may take a moment to reap it: a zombie has no command line.
		if b, _ := os.ReadFile("/proc/" + f[0] + "/cmdline"); len(b) == 0 {
			return nil
		}
		return errors.New("it is alive")
	})
	if err != nil {
		if orphan, err := os.FindProcess(pid); err == nil {
			orphan.Kill()
		}
		t.Fatal(err)
	}
}

func TestSentinelFailsOver(t *testing.T) {
	s := Sentinel(t, nil)
	first, err := s.Primary()
	if err != nil {
		t.Fatal(err)
	}
	first.Kill()
	err = until(startBound, func() error {
		now, err := s.Primary()
		if err == nil && now == first {
			err = errors.New("still the dead one")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Heal(startBound); err != nil {
		t.Fatal(err)
	}
}

func TestClusterServesEverySlot(t *testing.T) {
	c := RedisCluster(t, nil)
	for _, key := range []string{"a", "b", "c", "{x}y"} {
		err := until(startBound, func() error { // a node that stood still may be thought to have failed
			node, err := c.NodeOf(key)
			if err == nil {
				_, err = node.Do("SET", key, "1")
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestProxyCountsAndCuts(t *testing.T) {
	r := Redis(t, nil)
	p := ProxyTo(t, r.Addr)
	dial := func() *Conn {
		t.Helper()
		c, err := DialRedis(p.Addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	c := dial()
	c.Do("SET", "k", strings.Repeat("x", 100_000))
	c.Do("client", "id")
	c.c.Write([]byte("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI"))
	c.read()
	c.c.Write([]byte("NG\r\nPING\r\n"))
	c.read()
	c.read()
	want := map[string]int{"SET": 1, "CLIENT ID": 1, "PING": 3}
	if got := p.Commands(); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}

	p.CutReply(2)
	if _, err := c.Do("INCR", "n"); err == nil {
		t.Error("an answer came through a cut")
	}
	p.CutRequest(5)
	if _, err := dial().Do("INCR", "n"); err == nil {
		t.Error("a request came through a cut")
	}
	if v, err := dial().Do("GET", "n"); v != "1" {
		t.Errorf("the first INCR must arrive and the second not: %v %v", v, err)
	}

	for i, late := range []bool{false, true} { // whether the answer comes when dropping has ended
		if late {
			p.HoldReply("INCR")
		}
		p.DropReplies(true)
		c = dial()
		c.c.SetDeadline(time.Now().Add(2 * startBound))
		c.c.Write([]byte("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"))
		if err := until(startBound, func() error {
			if v, _ := r.Do("GET", "n"); v != strconv.Itoa(i+2) {
				return errors.New("not arrived")
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		p.DropReplies(false)
		p.ReleaseReply()
		if _, err := c.read(); err == nil {
			t.Errorf("a connection that lost an answer lives on (the answer comes late: %t)", late)
		}
	}

	p.BlackHole(true)
	c = dial()
	answered := make(chan error, 1)
	go func() {
		_, err := c.Do("PING")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("answered through a black hole: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	p.BlackHole(false)
	if err := <-answered; err != nil {
		t.Errorf("after healing: %v", err)
	}

	p.Delay(30 * time.Millisecond)
	start := time.Now()
	if _, err := c.Do("PING"); err != nil || time.Since(start) < 60*time.Millisecond {
		t.Errorf("delayed: %v after %v", err, time.Since(start))
	}
	p.Delay(0)
	p.Refuse(true)
	refused, err := DialRedis(p.Addr, nil) // the reset may come before that returns
	if err == nil {
		defer refused.Close()
		if _, err := refused.Do("PING"); err == nil {
			t.Error("connected though refused")
		}
	}
}

func TestPostgresKillRestartReplica(t *testing.T) {
	s := Postgres(t, nil)
	query := func(s *PostgresServer, sql string) string {
		t.Helper()
		out, err := s.Query(sql)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	query(s, "CREATE TABLE t AS SELECT 1 AS a, 'x' AS b")
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := query(s, "SELECT * FROM t"); got != "1|x" {
		t.Errorf("after a restart: %q", got)
	}
	r := s.Replica(t, nil)
	if got := query(r, "SELECT *, pg_is_in_recovery() FROM t"); got != "1|x|t" {
		t.Errorf("on a replica: %q", got)
	}
}

func TestPostgresIsRestoredToAPointInTime(t *testing.T) {
	p := Postgres(t, &PostgresOptions{Archive: true})
	said := func(sql string) string {
		t.Helper()
		s, err := p.Query(sql)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	said("CREATE TABLE t (v text)")
	said("INSERT INTO t VALUES ('before')")
	if err := p.Backup(); err != nil {
		t.Fatal(err)
	}
	said("INSERT INTO t VALUES ('after')")
	addr := p.Addr
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(said("SELECT string_agg(v, ',') FROM t")); got != "before" || p.Addr != addr {
		t.Errorf("got %q at %s, want what was there before, at %s", got, p.Addr, addr)
	}
	said("INSERT INTO t VALUES ('again')")
}

func TestPgBouncerAnswersForItsServer(t *testing.T) {
	s := Postgres(t, nil)
	b := PgBouncer(t, s, "transaction")
	psql, err := find("psql")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(psql, "-XAtqc", "SELECT 1", b.URL("")).CombinedOutput()
	if err != nil || string(out) != "1\n" {
		t.Errorf("%v: %s", err, out)
	}
}
