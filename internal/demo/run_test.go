// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// quick is the whole demo in four seconds. Its rounds are shorter than the
// second that deciders take reports for, so request-weighted lends too much;
// what it must show is the order.
func quick() Config { return Config{For: 4 * time.Second, Interval: 200 * time.Millisecond} }

func TestWeightedLimitsUseWhatEvenOnesWaste(t *testing.T) {
	t.Parallel()
	var frames []Frame
	var result Result
	for range 5 { // until the machine was fast enough to send what the demo is about
		frames = nil
		r, err := Run(t.Context(), quick(), func(f Frame) { frames = append(frames, f) })
		if err != nil {
			t.Fatal(err)
		}
		// Of this load even admits 0.44. It admits more if all stood still, and
		// buckets filled, before the phase began.
		result = r
		even := r.Phases[0].Results[0]
		if even.OfferedPerS >= 900 && even.Ratio() < 0.6 {
			break
		}
		t.Logf("%.0f of 1000 requests a second were sent, and even admitted %.2f", even.OfferedPerS, even.Ratio())
	}
	var names []string
	for _, p := range result.Phases {
		names = append(names, p.Name)
		var algorithms []string
		for _, m := range p.Results {
			algorithms = append(algorithms, m.Algorithm)
		}
		if want := []string{"even", "request-weighted", "auto"}; !slices.Equal(algorithms, want) {
			t.Fatalf("%s measured %v, not %v", p.Name, algorithms, want)
		}
		for _, m := range p.Results {
			// On a machine that sends little, what was sent before the phase began may be much of it.
			if m.OfferedPerS <= 0 || m.IdealPerS <= 0 || m.IdealPerS > 500 || m.AdmittedPerS > m.OfferedPerS+100 {
				t.Errorf("%s: impossible figures: %+v", p.Name, m)
			}
		}
	}
	if !slices.Equal(names, Phases()) {
		t.Fatalf("phases are %v, want %v", names, Phases())
	}
	even := result.Phases[0].Results[0]
	for _, m := range result.Phases[0].Results[1:] {
		if even.OfferedPerS >= 900 && m.Ratio() < 1.5*even.Ratio() {
			t.Errorf("in the steady phase even admits %.2f of the ideal and %s %.2f: not well above it", even.Ratio(), m.Algorithm, m.Ratio())
		}
	}
	last := frames[len(frames)-1]
	dead := slices.IndexFunc(last.Hosts, func(h HostRow) bool { return h.State == StateKilled })
	if dead < 0 || last.Hosts[dead].Hot || last.Hosts[dead].Decides {
		t.Fatalf("no host that is neither hot nor decides is dead in the end: %+v", last.Hosts)
	}
	if !frames[len(frames)/4].Hosts[dead].Decides {
		t.Error("the host that was killed did not decide before")
	}
	decides := slices.ContainsFunc(last.Hosts, func(h HostRow) bool { return h.Decides })
	if even.OfferedPerS >= 900 && !decides {
		t.Error("nobody decides in the end")
	}
	if hit := "hits " + frames[1].Hosts[slices.IndexFunc(frames[1].Hosts, func(h HostRow) bool { return h.Hot })].Name; !strings.HasSuffix(frames[1].Headline, hit) {
		t.Errorf("the first headline is %q, want it to end with %q", frames[1].Headline, hit)
	}
}

func TestClientsSeeWhatTheAnsweringAlgorithmAdmits(t *testing.T) {
	config := quick().withDefaults()
	c, err := newCluster(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(config, c, nil, &Result{})
	r.load = startLoad(t.Context(), config, aimAt(c.hosts, 0, -1))
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; r.load.ok.Load() < 200; <-tick.C {
		r.read() // a key that is idle for a while, on a busy machine, begins to count anew
		if t.Context().Err() != nil {
			t.Fatal("never 200 answers")
		}
	}
	r.load.close()
	var admitted int64
	answers := r.read().admitted[len(r.meter.series)-1]
	for _, n := range answers {
		admitted += n
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	// The last requests of each worker were given up when the load ended.
	if ok := r.load.ok.Load(); admitted < ok || admitted > ok+workers {
		t.Errorf("hosts admitted %d, clients saw %d", admitted, ok)
	}
	if failed := r.load.failed.Load(); failed != 0 {
		t.Errorf("%d requests failed", failed)
	}
}

func TestItEndsAtOnceAndTellsWhatThereWas(t *testing.T) {
	t.Parallel()
	config := quick()
	config.For = 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ended time.Time
	result, err := Run(ctx, config, func(f Frame) {
		if f.Phase == 1 && ended.IsZero() {
			ended = time.Now()
			cancel()
		}
		if f.Phase == 2 {
			t.Error("the story went on after its end")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(ended); took > time.Minute {
		t.Errorf("it took %v to end", took)
	}
	// Of the phase that was ended there is something if the machine was slow.
	if n := len(result.Phases); n < 1 || n > 2 || result.Phases[0].Name != "steady" {
		t.Errorf("phases are %v, want what was steady, and at most the begin of the next", result.Phases)
	}
}

func TestAKilledHostIsBackInTheNextRound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	killed, back := -1, false
	_, err := Run(ctx, Config{Interval: 150 * time.Millisecond}, func(f Frame) {
		if i := slices.IndexFunc(f.Hosts, func(h HostRow) bool { return h.State == StateKilled }); i >= 0 {
			killed = i
		}
		if f.Round == 2 && f.Hosts[killed].State == StateGrant && f.Hosts[killed].Offered > 0 && f.Hosts[killed].Decides {
			back = true
		}
		if back || f.Round == 3 {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if !back {
		t.Error("the host that was killed never came back")
	}
}

func TestARunThatNeverBegan(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, err := Run(ctx, quick(), nil)
	if err != nil || len(result.Phases) != 0 {
		t.Errorf("Run = %v, %v; want nothing", result, err)
	}
}

func TestImpossibleConfigsSayWhatToTake(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Hosts: 2}, "take 3 to 9"},
		{Config{Limit: -1}, "limit -1/s: take 1 to"},
		{Config{Offered: 1e6}, "take 1 to 20000"},
		{Config{Interval: time.Millisecond}, "take at least 100ms"},
		{Config{For: time.Second}, "take at least 12s, or 0"},
		{Config{Lanes: []Lane{}}, "take Lanes()"},
	} {
		if _, err := Run(t.Context(), c.config, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.config, err, c.want)
		}
	}
}
