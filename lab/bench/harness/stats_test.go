package harness

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestMedianAndSpread(t *testing.T) {
	for _, c := range []struct {
		name             string
		rounds           []float64
		median, min, max float64
	}{
		{"odd", []float64{3, 1, 2}, 2, 1, 3},
		{"even", []float64{4, 1, 2, 3}, 2.5, 1, 4},
		{"one", []float64{7}, 7, 7, 7},
		{"a round without a result is left out", []float64{3, math.NaN(), 1, math.Inf(1), 2}, 2, 1, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, ok := NewStat(c.rounds)
			if !ok || s.Median != c.median || s.Min != c.min || s.Max != c.max {
				t.Errorf("got %v %v", s, ok)
			}
		})
	}
	if _, ok := NewStat([]float64{math.NaN()}); ok {
		t.Error("a statistic of nothing")
	}
}

func TestRatiosAreOfTheSameRound(t *testing.T) {
	// The machine was three times slower in the second round, for both alike.
	s, ok := Ratio([]float64{2, 6, 2.2}, []float64{1, 3, 1})
	if !ok || s.Median != 2 || s.Min != 2 || s.Max != 2.2 {
		t.Errorf("got %+v %v", s, ok)
	}
	if s, ok := Ratio([]float64{1, 2}, []float64{0, 1}); !ok || len(s.Rounds) != 1 {
		t.Errorf("a division by nothing counted: %+v %v", s, ok)
	}
}

func TestASpreadAcrossOneIsNoDifference(t *testing.T) {
	for want, rounds := range map[string][]float64{
		"no difference (0.900 to 1.10)": {0.9, 1.1, 1.05},
		"2x (1.50 to 3)":                {1.5, 2, 3},
		"0.500x (0.400 to 0.900)":       {0.4, 0.5, 0.9},
	} {
		s, _ := NewStat(rounds)
		if got := s.Compare(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(i + 1)
	}
	for p, want := range map[float64]float64{0.5: 50, 0.99: 99, 1: 100, 0: 1} {
		if got := Percentile(hundred, p); got != want {
			t.Errorf("p%v = %v, want %v", 100*p, got, want)
		}
	}
	if !math.IsNaN(Percentile(nil, 0.5)) {
		t.Error("a percentile of nothing")
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		served []int64
		want   float64
	}{
		{[]int64{5, 5, 5, 5}, 1},
		{[]int64{8, 0, 0, 0}, 0.25},
		{[]int64{1, 2, 3}, 36.0 / 42},
	} {
		if got := Jain(c.served); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Jain(%v) = %v, want %v", c.served, got, c.want)
		}
	}
	if !math.IsNaN(Jain([]int64{0, 0})) {
		t.Error("nobody was served, and that was fair")
	}
	if n := Unserved([]int64{0, 3, 0}); n != 2 {
		t.Errorf("%d unserved, want 2", n)
	}
}

func TestSweep(t *testing.T) {
	hold := func(name int32, start, end int64, units int32) Hold { return Hold{start, end, name, units} }
	for _, c := range []struct {
		name  string
		limit int64
		holds []Hold
		want  int
	}{
		{"one after the other", 1, []Hold{hold(0, 1, 5, 1), hold(0, 6, 9, 1)}, 0},
		{"at the same nanosecond", 1, []Hold{hold(0, 5, 9, 1), hold(0, 1, 5, 1)}, 0},
		{"by one nanosecond", 1, []Hold{hold(0, 1, 6, 1), hold(0, 5, 9, 1)}, 1},
		{"one inside the other", 1, []Hold{hold(0, 1, 9, 1), hold(0, 3, 4, 1), hold(0, 5, 6, 1)}, 2},
		{"names do not meet", 1, []Hold{hold(0, 1, 9, 1), hold(1, 3, 4, 1)}, 0},
		{"a semaphore has room for two", 2, []Hold{hold(0, 1, 9, 1), hold(0, 2, 9, 1)}, 0},
		{"and not for three", 2, []Hold{hold(0, 1, 9, 1), hold(0, 2, 9, 1), hold(0, 3, 9, 1)}, 1},
		{"readers share", shareLimit, []Hold{hold(0, 1, 9, 1), hold(0, 2, 9, 1)}, 0},
		{"a writer among readers", shareLimit, []Hold{hold(0, 1, 9, 1), hold(0, 2, 9, shareLimit)}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Sweep(c.holds, c.limit); got != c.want {
				t.Errorf("%d overlaps, want %d", got, c.want)
			}
		})
	}
}

// The sweep against looking at every pair.
func TestSweepAgainstBruteForce(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var holds []Hold
		for range 1 + draw.IntN(8) {
			start := draw.Int64N(30)
			holds = append(holds, Hold{start, start + 1 + draw.Int64N(6), draw.Int32N(2), 1})
		}
		want := false
		for i, a := range holds {
			for _, b := range holds[:i] {
				want = want || a.Name == b.Name && a.Start < b.End && b.Start < a.End
			}
		}
		if got := Sweep(holds, 1) > 0; got != want {
			t.Fatalf("%v: overlap %v, want %v", holds, got, want)
		}
	}
}

func TestFigures(t *testing.T) {
	for want, v := range map[string]float64{"850 ns": 850, "1.50 µs": 1500, "12.5 ms": 12.5e6, "2 s": 2e9} {
		if got := Nanoseconds.Format(v); got != want {
			t.Errorf("%v: got %q, want %q", v, got, want)
		}
	}
	for want, v := range map[string]float64{"1,234,568": 1234567.8, "0.010": 0.01, "-": math.NaN(), "-1,235": -1234.6} {
		if got := Plain.Format(v); got != want {
			t.Errorf("%v: got %q, want %q", v, got, want)
		}
	}
	if got := Percent.Format(0.0289); got != "2.89 %" {
		t.Errorf("got %q", got)
	}
}
