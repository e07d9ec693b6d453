// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/usage"
)

func TestMain(m *testing.M) { waittest.Main(m) }

// granting gives every key its own count of allowed events as its burst, so
// that a test can see which answer belongs to which key.
type granting struct{ calls atomic.Int64 }

func (d *granting) Update(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	d.calls.Add(1)
	var u usage.Report
	if err := (usage.Columnar{}).DecodeReport(payload, &u); err != nil {
		return nil, err
	}
	g := &usage.Grants{}
	for i := range u.Keys {
		g.Weight = append(g.Weight, u.Weight[i])
		g.Burst = append(g.Burst, float64(u.Allowed[i]))
		g.Used = append(g.Used, 0)
		g.Lease = append(g.Lease, time.Minute)
	}
	return usage.Columnar{}.EncodeGrants(g, u.Len())
}

// result is what one Update brought, by key.
type result struct {
	burst map[string]float64
	errs  map[string]error
	took  map[string]time.Duration // by owner
}

func update(ctx context.Context, f *usage.Fanout, u *usage.Report) result {
	r := result{burst: make(map[string]float64), errs: make(map[string]error), took: make(map[string]time.Duration)}
	start := time.Now()
	f.Update(ctx, u, time.Second, func(p usage.Part, g *usage.Grants, err error) {
		r.took[p.Owner] = time.Since(start)
		for i, row := range p.Rows {
			if err != nil {
				r.errs[u.Keys[row]] = err
			} else {
				r.burst[u.Keys[row]] = g.Burst[i]
			}
		}
	})
	return r
}

func TestABadOwnerCostsOnlyItsOwnKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := rpctest.New(1)
		network.Host("good").Serve(&granting{})
		network.Host("slow").Serve(&granting{})
		network.SetFaults("slow", "me", rpctest.Faults{Delay: 900 * time.Millisecond})
		network.Host("late").Serve(&granting{})
		network.SetFaults("me", "late", rpctest.Faults{Delay: time.Hour})
		network.Host("mute").Serve(&granting{})
		network.Cut("mute", "me")
		network.Host("panics").Serve(rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { panic("boom") }))
		network.Host("nil").Serve(rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { return nil, nil }))
		network.Host("lies").Serve(rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) {
			return anypb.New(&headgatepb.Grants{Weights: []float32{7}})
		}))
		network.Host("babbles").Serve(says(t, "babble"))
		broken := errors.New("disk full")
		network.Host("fails").Serve(rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { return nil, broken }))

		f := &usage.Fanout{Host: "me", Placement: byPrefix{}, Peers: network.Host("me").Peers()}
		u := usageOf("lies:1", "good:1", "panics:1", "mute:1", "slow:1", "nil:1", "late:1", "gone:1", "good:2", "babbles:1", "fails:1", ":1")
		r := update(t.Context(), f, u)

		if want := map[string]float64{"good:1": 1, "good:2": 8, "slow:1": 4}; fmt.Sprint(r.burst) != fmt.Sprint(want) {
			t.Errorf("granted %v, want %v", r.burst, want)
		}
		var panicked *rpc.PanicError
		if err := r.errs["panics:1"]; !errors.As(err, &panicked) {
			t.Errorf("panics: %v", err)
		}
		for _, row := range []struct {
			key string
			is  error
		}{
			{"mute:1", context.DeadlineExceeded},
			{"late:1", context.DeadlineExceeded},
			{"gone:1", rpctest.ErrRefused},
			{"lies:1", rpc.ErrPayload},
			{"nil:1", rpc.ErrPayload},
			{"babbles:1", rpc.ErrPayload},
			{"fails:1", broken},
			{":1", rpc.ErrNoOwner},
		} {
			err := r.errs[row.key]
			if !errors.Is(err, row.is) {
				t.Errorf("%s: %v, want %v", row.key, err, row.is)
				continue
			}
			owner, _, _ := strings.Cut(row.key, ":")
			if want := fmt.Sprintf("update 1 key (elastic) at %q: ", owner); !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q does not start with %q", err, want)
			}
		}
		if r.took["good"] != 0 || r.took["slow"] != 900*time.Millisecond || r.took["mute"] != time.Second {
			t.Errorf("answers came after %v", r.took)
		}
	})
}

func TestEachCallHasADeadlineOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := rpctest.New(1)
		f := &usage.Fanout{Host: "me", Placement: byPrefix{}, Peers: network.Host("me").Peers()}
		var keys []string
		for i := range 256 { // as many calls as there are at once
			lost := fmt.Sprint("lost-", i)
			network.Cut("me", lost)
			keys = append(keys, lost+":1")
		}
		network.Host("slow").Serve(&granting{})
		network.SetFaults("me", "slow", rpctest.Faults{Delay: 900 * time.Millisecond})
		r := update(t.Context(), f, usageOf(append(keys, "slow:1")...))
		if r.errs["slow:1"] != nil || r.took["slow"] != 1900*time.Millisecond {
			t.Errorf("after the lost call had its second: %v %v", r.errs["slow:1"], r.took)
		}
	})
}

func TestUpdateEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := rpctest.New(1)
		f := &usage.Fanout{Host: "me", Placement: byPrefix{}, Peers: network.Host("me").Peers()}
		var keys []string
		for i := range 300 {
			lost := fmt.Sprint("lost-", i)
			network.Cut("me", lost)
			keys = append(keys, lost+":1")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		r := update(ctx, f, usageOf(keys...))
		if took := time.Since(start); took != 300*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if len(r.errs) != len(keys) {
			t.Errorf("%d of %d keys have their error: %v", len(r.errs), len(keys), r.errs)
		}
		sent := 0
		for i := range keys {
			sent += int(network.Sent("me", fmt.Sprint("lost-", i)))
		}
		if sent != 256 {
			t.Errorf("%d calls; those whose turn came too late are not made", sent)
		}
	})
}

func TestCallsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		busy := rpc.DeciderFunc(func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
			return (&granting{}).Update(ctx, host, payload)
		})
		network := rpctest.New(1)
		f := &usage.Fanout{Host: "me", Placement: byPrefix{}, Peers: network.Host("me").Peers()}
		var keys []string
		for i := range 600 {
			owner := fmt.Sprint("owner-", i)
			network.Host(owner).Serve(busy)
			keys = append(keys, owner+":1")
		}
		r := update(t.Context(), f, usageOf(keys...))
		if len(r.burst) != len(keys) || most.Load() != 256 {
			t.Errorf("%d answers, %d calls at once; want %d and 256", len(r.burst), most.Load(), len(keys))
		}
	})
}

func TestOwnKeysDoNotTouchTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := rpctest.New(1)
		network.Host("other").Serve(&granting{})
		local := &granting{}
		f := &usage.Fanout{Host: "me", Placement: byPrefix{}, Peers: network.Host("me").Peers(), Self: "me:7500", Local: local}
		f.Placement = owners{"x": "me:7500", "y": "other"}
		r := update(t.Context(), f, usageOf("x", "y"))
		if len(r.burst) != 2 || local.calls.Load() != 1 || network.Sent("me", "me:7500") != 0 || network.Sent("me", "other") != 1 {
			t.Errorf("%v, %d local calls", r, local.calls.Load())
		}
	})
}

type owners map[string]string

func (o owners) Owner(key string) string { return o[key] }

func TestACodecOfOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			name  string
			codec usage.Codec
			want  string // of the error; none if empty
		}{
			{"used for its algorithm", wordCodec{grants: sampleGrants(1)}, ""},
			{"that panics", wordCodec{panics: true}, "panic: codec"},
			{"that returns nothing", wordCodec{}, "neither grants nor an error"},
			{"that returns grants for other keys", wordCodec{grants: sampleGrants(2)}, "the answer does not fit: 1 keys, 2 weights"},
		} {
			network := rpctest.New(1)
			network.Host("a").Serve(says(t, "fine"))
			f := &usage.Fanout{Host: "me", Placement: byPrefix{}, Peers: network.Host("me").Peers(), Codecs: map[string]usage.Codec{"elastic": row.codec}}
			r := update(t.Context(), f, usageOf("a:1"))
			err := r.errs["a:1"]
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("a codec %s: %v, want %q", row.name, err, row.want)
			}
		}
	})
}

// A codec that does not return has one goroutine, however often it is called. Other algorithms go
// on, and so does the codec when it has returned.
func TestACodecThatDoesNotReturnHasOneGoroutine(t *testing.T) {
	for _, where := range []string{"encode", "decode"} {
		synctest.Test(t, func(t *testing.T) {
			network := rpctest.New(1)
			network.Host("a").Serve(says(t, "fine"))
			hangs := &hangingCodec{wordCodec: wordCodec{grants: sampleGrants(1)}, release: make(chan struct{}), where: where}
			f := &usage.Fanout{Host: "me", Placement: byPrefix{}, Peers: network.Host("me").Peers(), Codecs: map[string]usage.Codec{"elastic": hangs, "other": wordCodec{grants: sampleGrants(1)}}}
			for range 10 {
				began := time.Now()
				done := make(chan result, 2)
				for range cap(done) { // two at once
					go func() { done <- update(t.Context(), f, usageOf("a:1")) }()
				}
				for range cap(done) {
					if err := (<-done).errs["a:1"]; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "return") {
						t.Errorf("%s: %v", where, err)
					}
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("%s: a report took %v", where, took)
				}
				other := usageOf("a:1")
				other.Algorithm = "other"
				if err := update(t.Context(), f, other).errs["a:1"]; err != nil {
					t.Errorf("%s: another algorithm: %v", where, err)
				}
			}
			if n := hangs.inside.Load(); n != 1 {
				t.Errorf("%s: %d calls are in the codec, want 1", where, n)
			}
			close(hangs.release)
			synctest.Wait()
			if err := update(t.Context(), f, usageOf("a:1")).errs["a:1"]; err != nil {
				t.Errorf("%s: after it has returned: %v", where, err)
			}
		})
	}
}

// hangingCodec does not return until release is closed.
type hangingCodec struct {
	wordCodec

	where   string
	release chan struct{}
	inside  atomic.Int64
}

func (c *hangingCodec) wait(where string) {
	if where == c.where {
		c.inside.Add(1)
		defer c.inside.Add(-1)
		<-c.release
	}
}

func (c *hangingCodec) EncodeReport(r *usage.Report) (*anypb.Any, error) {
	c.wait("encode")
	return c.wordCodec.EncodeReport(r)
}

func (c *hangingCodec) DecodeGrants(p *anypb.Any, r *usage.Report) (*usage.Grants, error) {
	c.wait("decode")
	return c.wordCodec.DecodeGrants(p, r)
}

type wordCodec struct {
	grants *usage.Grants
	panics bool
}

func (c wordCodec) EncodeReport(*usage.Report) (*anypb.Any, error) {
	if c.panics {
		panic("codec")
	}
	return anypb.New(wrapperspb.String("how do you do"))
}

func (c wordCodec) DecodeGrants(*anypb.Any, *usage.Report) (*usage.Grants, error) {
	return c.grants, nil
}

func TestNothingToAskIsNoCall(t *testing.T) {
	f := &usage.Fanout{Host: "me", Placement: byPrefix{}}
	f.Update(t.Context(), &usage.Report{}, time.Second, func(usage.Part, *usage.Grants, error) { t.Error("done was called") })
}

func ExampleFanout_Update() {
	network := rpctest.New(1)
	network.Host("10.0.0.2:7500").Serve(&granting{})

	fan := &usage.Fanout{
		Host:      "10.0.0.1:7500",
		Placement: owners{"orders:read": "10.0.0.2:7500", "orders:write": "10.0.0.3:7500"},
		Peers:     network.Host("10.0.0.1:7500").Peers(),
	}
	report := usageOf("orders:read", "orders:write")
	var lines []string
	fan.Update(context.Background(), report, time.Second, func(p usage.Part, g *usage.Grants, err error) {
		for i, row := range p.Rows {
			if err != nil {
				lines = append(lines, fmt.Sprintf("%s: %v", report.Keys[row], err))
				continue
			}
			lines = append(lines, fmt.Sprintf("%s: weight %v for %v", report.Keys[row], g.Weight[i], g.Lease[i]))
		}
	})
	slices.Sort(lines)
	fmt.Println(strings.Join(lines, "\n"))
	// Output:
	// orders:read: weight 1 for 1m0s
	// orders:write: update 1 key (elastic) at "10.0.0.3:7500": call "10.0.0.3:7500": rpctest: connection refused
}
