package redisfence_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/engine/redis/redisfence"
	"leasehold/fence"
	"leasehold/lab/servers"
)

func pass(token leasehold.Token, mode engine.Modes) fence.Pass {
	return fence.Pass{Name: "n", Token: token, Mode: mode}
}

// near are tokens of which doubles cannot tell neighbours apart, and of two lengths.
func near(t *rand.Rand) leasehold.Token {
	return leasehold.Token([]uint64{999999999999999990, 1805961216000000001}[t.IntN(2)] + t.Uint64N(20))
}

// TestAsInMemory: whatever comes in whatever order, the script lets in whom fence.Memory
// lets in, with the same mark, and writes for nobody else.
func TestAsInMemory(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, servers.Redis(t, nil).Addr)
	marks, model := redisfence.New(client), &fence.Memory{}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	refused := 0
	for range 2000 {
		p := pass(near(dice), []engine.Modes{engine.Exclusive, engine.Shared, engine.Permits}[dice.IntN(3)])
		if dice.IntN(100) == 0 { // a new name now and then, or nobody gets in any more
			p.Name = "n" + p.Token.String()
		}
		want := model.Do(t.Context(), p, func() error { return nil })
		_, err := marks.Do(redistest.Within(t), p, p.Name, []string{"SET", p.Name, p.Token.String()})
		stale, _ := errors.AsType[*fence.StaleError](err)
		wanted, _ := errors.AsType[*fence.StaleError](want)
		switch {
		case wanted != nil && (stale == nil || *stale != *wanted),
			wanted == nil && (err == nil) != (want == nil),
			wanted == nil && want != nil && !errors.Is(err, fence.ErrPass):
			t.Fatalf("%v: %v, want %v", p, err, want)
		}
		got, _ := client.Do(t.Context(), client.B().Get().Key(p.Name).Build()).ToString() // absent is ""
		if (got == p.Token.String()) != (err == nil) && wanted != nil {
			t.Fatalf("%v: %v, and the key has %s", p, err, got)
		}
		if wanted != nil {
			refused++
		}
	}
	if refused < 100 {
		t.Errorf("only %d were refused: this shows nothing", refused)
	}
}

func TestCommandsAreAnsweredAndEndAtTheFirstError(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, servers.Redis(t, nil).Addr)
	marks := redisfence.New(client)
	p := pass(7, engine.Exclusive)
	got, err := marks.Do(redistest.Within(t), p, "k",
		[]string{"RPUSH", "k", "a b", ""}, []string{"GET", "absent"}, []string{"LRANGE", "k", "0", "-1"})
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	if n, err := got[0].AsInt64(); n != 2 || err != nil {
		t.Error(n, err)
	}
	if !got[1].IsNil() {
		t.Error(got[1])
	}
	if all, err := got[2].AsStrSlice(); err != nil || len(all) != 2 || all[0] != "a b" || all[1] != "" {
		t.Error(all, err)
	}
	_, err = marks.Do(redistest.Within(t), p, "k", []string{"SET", "one", "1"}, []string{"INCR", "k"}, []string{"SET", "two", "2"})
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || errors.Is(err, fence.ErrStale) {
		t.Error(err)
	}
	if n, err := client.Do(t.Context(), client.B().Exists().Key("one", "two").Build()).AsInt64(); n != 1 || err != nil {
		t.Errorf("%d keys, %v: the first command is carried out and the third is not", n, err)
	}
	for _, bad := range [][]string{nil, make([]string, redisfence.MaxWords+1)} {
		if _, err := marks.Do(redistest.Within(t), p, "k", []string{"SET", "two", "2"}, bad); err == nil {
			t.Errorf("%d words", len(bad))
		}
	}
	if n, err := client.Do(t.Context(), client.B().Exists().Key("two").Build()).AsInt64(); n != 0 || err != nil {
		t.Errorf("%d, %v: a command was carried out before one that cannot be sent", n, err)
	}
	long := append([]string{"RPUSH", "long"}, make([]string, redisfence.MaxWords-2)...)
	if _, err := marks.Do(redistest.Within(t), p, "k", long); err != nil {
		t.Error(err)
	}
}

// TestADamagedMarkLetsNobodyIn, nor is it written over: what it was is not known.
func TestADamagedMarkLetsNobodyIn(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, servers.Redis(t, nil).Addr)
	marks := redisfence.New(client)
	for _, junk := range []string{"", "x", "-1", "1.5", "007", "00", " 5", "1 ", "\x00", "a longer one than any token is", "9223372036854775808"} {
		set := client.B().Set().Key(redisfence.MarkKey("k")).Value(junk).Build()
		if err := client.Do(t.Context(), set).Error(); err != nil {
			t.Fatal(err)
		}
		_, err := marks.Do(redistest.Within(t), pass(1805961216000000001, engine.Exclusive), "k", []string{"SET", "k", "written"})
		if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "does not hold a token") {
			t.Errorf("%q: %v", junk, err)
		}
		if got, _ := client.Do(t.Context(), client.B().Get().Key(redisfence.MarkKey("k")).Build()).ToString(); got != junk {
			t.Errorf("%q became %q", junk, got)
		}
	}
	for _, put := range redistest.Wrong[1:] { // of another type
		args := append([]string{}, put[2:]...)
		client.Do(t.Context(), client.B().Del().Key(redisfence.MarkKey("k")).Build())
		if err := client.Do(t.Context(), client.B().Arbitrary(put[0], redisfence.MarkKey("k")).Args(args...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		_, err := marks.Do(redistest.Within(t), pass(1805961216000000001, engine.Exclusive), "k", []string{"SET", "k", "written"})
		if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), redisfence.MarkKey("k")+" does not hold a token") {
			t.Errorf("%v: %v", put, err)
		}
	}
	if n, err := client.Do(t.Context(), client.B().Exists().Key("k").Build()).AsInt64(); n != 0 || err != nil {
		t.Errorf("written: %d, %v", n, err)
	}
}

// TestLeastPrivilege: the rules of the package documentation, word for word.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	const rules = "+get +set +eval +evalsha and ~leasehold:fence:*"
	source, err := os.ReadFile("redisfence.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), rules) {
		t.Errorf("the documentation does not have the tested rules %q", rules)
	}
	r := servers.Redis(t, &servers.RedisOptions{ACL: []string{
		"user app on >secret ~stock:* +hset +hello " + strings.ReplaceAll(rules, " and ", " ")}})
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Addr}, ForceSingleClient: true, DisableCache: true,
		Username: "app", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	marks := redisfence.New(c)
	if _, err := marks.Do(redistest.Within(t), pass(9, engine.Exclusive), "stock:{42}", []string{"HSET", "stock:{42}", "n", "5"}); err != nil {
		t.Error(err)
	}
	if _, err := marks.Do(redistest.Within(t), pass(8, engine.Exclusive), "stock:{42}", []string{"HSET", "stock:{42}", "n", "6"}); !errors.Is(err, fence.ErrStale) {
		t.Error(err)
	}
}

// TestCluster: the mark is where its key is, whatever braces the key has.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, nil)
	cluster.Patient(t, time.Minute)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: cluster.Addrs(), DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	marks := redisfence.New(client)
	for _, key := range []string{"plain", "{tag}x", "x{tag}", "a}b", "{}x", "x{"} {
		set := []string{"SET", key, "1"}
		if _, err := marks.Do(redistest.Within(t), pass(9, engine.Exclusive), key, set); err != nil {
			t.Errorf("%q: %v", key, err)
		}
		if _, err := marks.Do(redistest.Within(t), pass(8, engine.Exclusive), key, set); !errors.Is(err, fence.ErrStale) {
			t.Errorf("%q: %v", key, err)
		}
	}
}
