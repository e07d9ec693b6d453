// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/aggregator/internal/table"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

func TestMain(m *testing.M) {
	testrun.OnlyComputes()
	testrun.CollectLess()
	waittest.Main(m)
}

func encode(t testing.TB, u *usage.Report) *anypb.Any {
	t.Helper()
	payload, err := usage.Columnar{}.EncodeReport(u)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func TestUpdateAnswersPayloads(t *testing.T) {
	a := weighted(t, cadence)
	var mux rpc.Mux
	if err := mux.Register(usage.ReportTypeURL, a); err != nil {
		t.Fatal(err)
	}
	for _, keys := range [][]string{{"k", "l", "m"}, {"k"}, {"k", "l"}} { // longer and shorter messages after each other
		u := reportOf(algorithm.NameRequestWeighted, 5, 5, time.Second, keys...)
		answer, err := mux.Update(t.Context(), "a", encode(t, u))
		if err != nil {
			t.Fatal(err)
		}
		g, err := usage.Columnar{}.DecodeGrants(answer, u)
		if err != nil {
			t.Fatal(err)
		}
		for i := range keys {
			if g.Weight[i] != 1 || g.Used[i] != 5 || g.Lease[i] != 10*time.Second {
				t.Errorf("%v: %+v", keys, g)
			}
		}
	}
}

func TestUpdateRefusesWrongPayloads(t *testing.T) {
	a := weighted(t, cadence)
	good := encode(t, reportOf(algorithm.NameRequestWeighted, 5, 5, time.Second, "k"))
	for name, payload := range map[string]*anypb.Any{
		"none":         nil,
		"another type": {TypeUrl: usage.GrantsTypeURL, Value: good.GetValue()},
		"no type":      {Value: good.GetValue()},
		"truncated":    {TypeUrl: usage.ReportTypeURL, Value: good.GetValue()[:len(good.GetValue())-1]},
		"garbage":      {TypeUrl: usage.ReportTypeURL, Value: []byte("\xff\xff\xff\xff\xff")},
	} {
		if answer, err := a.Update(t.Context(), "a", payload); err == nil || answer != nil {
			t.Errorf("%s: answered %v, %v", name, answer, err)
		}
		if a.keys.Len() != 0 || a.keys.Hosts.Len() != 0 {
			t.Errorf("%s: was taken in", name)
		}
	}
	if _, err := a.Update(t.Context(), "", good); err == nil {
		t.Error("a report of nobody was taken in")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Update(ctx, "a", good); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller is gone: %v", err)
	}
	if _, err := a.Update(t.Context(), "a", good); err != nil {
		t.Errorf("a good one after all that: %v", err)
	}
}

func TestUpdatesRunSideBySide(t *testing.T) {
	a := weighted(t, cadence)
	var wg sync.WaitGroup
	for _, host := range []string{"a", "b", "c", "d"} {
		wg.Go(func() {
			u := reportOf(algorithm.NameRequestWeighted, 5, 5, time.Second, "k", host)
			payload := encode(t, u)
			for range 200 {
				answer, err := a.Update(t.Context(), host, payload)
				if err != nil {
					t.Error(err)
					return
				}
				if g, err := (usage.Columnar{}).DecodeGrants(answer, u); err != nil || g.Weight[1] != 1 {
					t.Errorf("%v: %+v", err, g)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestRunForgetsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := weighted(t, cadence)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { a.Run(ctx); close(ended) }()
		if _, err := a.Update(ctx, "a", encode(t, reportOf(algorithm.NameRequestWeighted, 5, 5, time.Second, "k"))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9500 * time.Millisecond)
		synctest.Wait()
		if a.keys.Len() != 1 || a.keys.Hosts.Len() != 1 {
			t.Error("forgotten before gc_after")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if a.keys.Len() != 0 || a.keys.Hosts.Len() != 0 {
			t.Error("not forgotten after gc_after")
		}
		at := time.Now()
		cancel()
		<-ended
		if took := time.Since(at); took != 0 {
			t.Errorf("Run ended %v after its context", took)
		}
	})
}

// FuzzUpdate feeds any bytes to an owner: it answers or refuses, and goes on.
func FuzzUpdate(f *testing.F) {
	for _, name := range []string{algorithm.NameRequestWeighted, algorithm.NameElastic, "mine"} {
		u := reportOf(name, 5, 3, time.Second, "k", "m", "frontend:orders")
		u.Wants = []float64{1, 1e300, 0}
		f.Add(encode(f, u).GetValue())
	}
	a, _ := custom(f, cadence, onAverage(new(counting).weigh))
	f.Fuzz(func(t *testing.T, message []byte) {
		u := new(usage.Report)
		answer, err := a.Update(t.Context(), "fuzzer", &anypb.Any{TypeUrl: usage.ReportTypeURL, Value: message})
		if err == nil {
			if err := (usage.Columnar{}).DecodeReport(&anypb.Any{TypeUrl: usage.ReportTypeURL, Value: message}, u); err != nil {
				t.Fatalf("took in what does not decode: %v", err)
			}
			if _, err := (usage.Columnar{}).DecodeGrants(answer, u); err != nil {
				t.Fatalf("answered what a host refuses: %v", err)
			}
		}
		good := reportOf(algorithm.NameRequestWeighted, 1, 0, time.Second, "good")
		if _, err := a.Update(t.Context(), "host", encode(t, good)); err != nil {
			t.Fatalf("a good report afterwards: %v", err)
		}
	})
}

// A large report is taken by shards, several at once if it has few keys. What
// comes out must be what the same keys get one by one, in their places.
func TestALargeReportIsManySmallOnes(t *testing.T) {
	for _, name := range []string{algorithm.NameRequestWeighted, algorithm.NameElastic} {
		for _, keys := range []int{table.Few + 1, 300, 5000} {
			t.Run(fmt.Sprint(name, " ", keys), func(t *testing.T) { isManySmallOnes(t, name, keys) })
		}
	}
}

func isManySmallOnes(t *testing.T, name string, keys int) {
	t.Helper()
	texts := make([]string, keys)
	for i := range texts {
		texts[i] = fmt.Sprint("k", i*i)
	}
	large, small := owner(t, name), owner(t, name)
	for round := range 3 {
		now := time.Duration(round) * time.Second
		for h, host := range []string{"a", "b"} {
			u := reportOf(name, 0, 0, time.Second, texts...)
			for i := range texts {
				u.Allowed[i], u.Rejected[i] = int64(i*(h+1)), int64(i%7)
			}
			got := step(t, large, now, host, u)
			for i, text := range texts {
				want := step(t, small, now, host, reportOf(name, u.Allowed[i], u.Rejected[i], time.Second, text))
				if got.Weight[i] != want.Weight[0] || got.Burst[i] != want.Burst[0] || got.Lease[i] != want.Lease[0] ||
					got.Tokens != nil && got.Tokens[i] != want.Tokens[0] {
					t.Fatalf("round %d, host %s, row %d: %v %v, alone %v %v", round, host, i, got.Weight[i], got.Burst[i], want.Weight[0], want.Burst[0])
				}
			}
		}
	}
	for _, text := range texts { // small reports find the same keys
		step(t, large, 3*time.Second, "a", reportOf(name, 1, 0, time.Second, text))
	}
	if got, want := large.keys.Len(), small.keys.Len(); got != want {
		t.Errorf("%d keys are known, one by one %d", got, want)
	}
}

// A key whose algorithm fails costs those beside it nothing.
func TestFailuresStayInTheirRows(t *testing.T) {
	fails := func(allowed int64) bool { return allowed%5 == 3 }
	a, _ := custom(t, cadence, onAverage(func(capacity float64, demands []algorithm.Demand, parts []float64) {
		if fails(int64(demands[0].Wants)) {
			panic("a bug in a weighing")
		}
		parts[0] = capacity / (1 + demands[0].Wants)
	}))
	var g usage.Grants // with what the last answer left in it
	for _, keys := range []int{50 * table.Few, 2 * table.Few, table.Few / 2} {
		texts := make([]string, keys)
		for i := range texts {
			texts[i] = fmt.Sprint("m", keys, "-", i)
		}
		u := reportOf("mine", 0, 0, time.Second, texts...)
		for i := range texts {
			u.Allowed[i] = int64(1 + (i+keys)%10)
		}
		if err := a.Step(0, "a", u, &g); err != nil {
			t.Fatal(err)
		}
		for i, allowed := range u.Allowed {
			weight := 1 / (1 + float64(allowed))
			if fails(allowed) {
				weight = 0
			}
			if !near(g.Weight[i], weight) || fails(allowed) != (g.Lease[i] == 0) {
				t.Fatalf("row %d of %d, %d allowed: weight %v for %v, want %v", i, keys, allowed, g.Weight[i], g.Lease[i], weight)
			}
		}
	}
}

// A key that is named twice in a report is taken twice, also when the first time
// brings it under settings by which it has forgotten the host.
func TestKeysNamedTwiceUnderNewSettings(t *testing.T) {
	const name = algorithm.NameRequestWeighted
	long := cadence
	long.GCAfter = 30 * time.Second
	for _, others := range [][]string{nil, {"b"}, {"b", "c"}} {
		for _, uses := range []int64{0, 5} {
			a := New(algorithm.Builtin(), snapshot(t, long, every(name)))
			texts := make([]string, 2*table.Few)
			for i := range texts {
				texts[i] = fmt.Sprint("k", i)
			}
			for n, host := range append([]string{"a"}, others...) {
				step(t, a, time.Duration(n)*time.Millisecond, host, reportOf(name, 5, 0, time.Second, texts...))
			}
			step(t, a, 14*time.Second, "late", reportOf(name, 5, 0, time.Second, texts...))
			a.Core.Configure(14*time.Second, snapshot(t, cadence, every(name)))
			twice := reportOf(name, 5, 0, time.Second, append(slices.Clone(texts), texts...)...)
			for i := range texts {
				twice.Allowed[i] = uses
			}
			step(t, a, 15*time.Second, "a", twice)
			id := a.keys.Hosts.Acquire("a")
			for _, text := range texts {
				if k := known(a, name, text).Account; !k.Knows(id) || k.Hosts() != 2 {
					t.Fatalf("others %v, first %d: of hosts a and late %d are known; a is one: %v", others, uses, k.Hosts(), k.Knows(id))
				}
			}
			for name, rows := range a.keys.Hosts.All {
				if name == "a" && rows != int64(len(texts))+1 { // and once here
					t.Errorf("others %v, first %d: a is counted %d times for %d keys", others, uses, rows-1, len(texts))
				}
			}
		}
	}
}

// Reports that lock several shards at once begin with any of them, and none waits
// for one that waits for it.
func TestLargeReportsRunSideBySide(t *testing.T) {
	const hosts, rounds = 8, 50
	a := owner(t, algorithm.NameRequestWeighted)
	texts := make([]string, 2*table.Few)
	for i := range texts {
		texts[i] = fmt.Sprint("k", i)
	}
	var wait sync.WaitGroup
	for h := range hosts {
		wait.Go(func() {
			var g usage.Grants
			for range rounds {
				if err := a.Step(0, fmt.Sprint(h), reportOf(algorithm.NameRequestWeighted, 10, 0, time.Second, texts...), &g); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	for i, used := range step(t, a, 0, "asks only", reportOf(algorithm.NameRequestWeighted, 0, 0, time.Second, texts...)).Used {
		if !near(used, 10*hosts) {
			t.Fatalf("%v events/s of %s are used, want %d", used, texts[i], 10*hosts)
		}
	}
}

func owner(t *testing.T, name string) *Aggregator {
	t.Helper()
	return New(algorithm.Builtin(), snapshot(t, cadence, every(name)))
}
