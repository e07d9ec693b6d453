// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// messages counts the messages that reach a Decider.
type messages struct {
	rpc.Decider
	count int
}

func (m *messages) Peer(string) (rpc.Decider, error) { return m, nil }

func (m *messages) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	m.count++
	return m.Decider.Update(ctx, host, payload)
}

// me owns all keys.
type me struct{}

func (me) Owner(string) string { return "me" }

func (me) Peer(string) (rpc.Decider, error) { return nil, errors.New("nothing is elsewhere") }

// twins are two Aggregators of the same rules: one that is asked without messages,
// and one that is asked with them.
func twins(t *testing.T, name string) (here, there *Aggregator, counts [2]*messages) {
	t.Helper()
	rule := every(name)
	rule.Burst = 200
	s := snapshot(t, dynamicconfig.Properties{UpdateInterval: time.Second}, rule)
	var both [2]*Aggregator
	for i := range both {
		a := New(algorithm.Builtin(), s)
		both[i], counts[i] = a, &messages{Decider: a}
	}
	return both[0], both[1], counts
}

func TestAHostAsksItselfWithoutMessagesAndWithTheSameResult(t *testing.T) {
	for _, name := range []string{algorithm.NameElastic, algorithm.NameRequestWeighted, algorithm.NameEvenFloor, algorithm.NameFairShare} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, _, counts := twins(t, name)
				chance := rand.New(rand.NewPCG(1, 2))
				for range 60 {
					host := fmt.Sprint("host", chance.IntN(4))
					r := rounded(t, randomReport(chance, name))
					direct := &usage.Fanout{Host: host, Placement: me{}, Peers: me{}, Self: "me", Here: here}
					encoded := &usage.Fanout{Host: host, Placement: me{}, Peers: me{}, Self: "me", Local: counts[1]}
					if got, want := answer(t, direct, r), answer(t, encoded, r); !reflect.DeepEqual(got, want) {
						t.Fatalf("without messages: %+v\nwith them:       %+v", got, want)
					}
					time.Sleep(time.Duration(chance.IntN(2000)) * time.Millisecond)
				}
				if counts[0].count != 0 || counts[1].count != 60 {
					t.Errorf("%d messages without messages, %d with them", counts[0].count, counts[1].count)
				}
			})
		})
	}
}

func randomReport(chance *rand.Rand, name string) *usage.Report {
	r := &usage.Report{Algorithm: name}
	for i := range 1 + chance.IntN(5) {
		r.Keys = append(r.Keys, fmt.Sprint("k", i))
		r.Allowed = append(r.Allowed, chance.Int64N(300))
		r.Rejected = append(r.Rejected, chance.Int64N(300))
		r.Elapsed = append(r.Elapsed, time.Duration(1+chance.IntN(3000))*time.Millisecond)
		r.Weight = append(r.Weight, chance.Float64())
		r.Wants = append(r.Wants, chance.Float64()*500)
		r.Cost = append(r.Cost, 1)
	}
	return r
}

// rounded is r as the wire rounds it.
func rounded(t *testing.T, r *usage.Report) *usage.Report {
	t.Helper()
	payload, err := usage.Columnar{}.EncodeReport(r)
	out := new(usage.Report)
	if err == nil {
		err = usage.Columnar{}.DecodeReport(payload, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// answer is what f answers, as the wire rounds it.
func answer(t *testing.T, f *usage.Fanout, r *usage.Report) (all *usage.Grants) {
	t.Helper()
	f.Update(t.Context(), r, time.Second, func(_ usage.Part, g *usage.Grants, err error) {
		payload, encode := usage.Columnar{}.EncodeGrants(g, r.Len())
		if err = errors.Join(err, encode); err == nil {
			all, err = usage.Columnar{}.DecodeGrants(payload, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	return all
}

func TestAHostClaimsFromItselfWithoutMessagesAndWithTheSameResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, _, counts := twins(t, algorithm.NameFairShare)
		direct := &claims.Claimant{Host: "me", Placement: me{}, Peers: me{}, Self: "me", Here: here}
		encoded := &claims.Claimant{Host: "me", Placement: me{}, Peers: counts[1]}
		for i := range 40 {
			c := &claims.Claims{}
			for j := range 1 + i%4 {
				c.Rows = append(c.Rows, claims.Claim{Key: fmt.Sprint("k", j), Host: fmt.Sprint("h", i%3), Has: float64(i), Bands: []claims.Band{{Priority: int64(j), Clients: 2, Wants: float64(40 + i)}}})
			}
			got, errs := direct.Claim(t.Context(), c)
			want, others := encoded.Claim(t.Context(), c)
			for k := range got.Rows { // the wire has milliseconds
				for _, d := range []*time.Duration{&got.Rows[k].Lasts, &got.Rows[k].Refresh, &got.Rows[k].Learns} {
					*d = d.Truncate(time.Millisecond)
				}
			}
			if errs != nil || others != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("without messages: %+v %v\nwith them:       %+v %v", got, errs, want, others)
			}
			time.Sleep(300 * time.Millisecond)
		}
		if counts[0].count != 0 || counts[1].count != 40 {
			t.Errorf("%d messages without messages, %d with them", counts[0].count, counts[1].count)
		}
	})
}

// A report that another host's Decider would refuse is refused here too, and
// counted, and nothing of it is taken in.
func TestAHostIsCheckedByItself(t *testing.T) {
	here, count := counted(t, every(algorithm.NameElastic))
	good := reportOf(algorithm.NameElastic, 1, 0, time.Second, "k")
	for name, spoil := range map[string]func(host *string, r *usage.Report){
		"no host":        func(host *string, _ *usage.Report) { *host = "" },
		"negative count": func(_ *string, r *usage.Report) { r.Allowed[0] = -1 },
		"weight":         func(_ *string, r *usage.Report) { r.Weight[0] = 2 },
		"a long key":     func(_ *string, r *usage.Report) { r.Keys[0] = string(make([]byte, rpc.MaxKeyLength+1)) },
		"no elapsed":     func(_ *string, r *usage.Report) { r.Elapsed[0] = 0 },
	} {
		host, r := "h", &usage.Report{
			Algorithm: good.Algorithm, Keys: slices.Clone(good.Keys), Allowed: slices.Clone(good.Allowed),
			Rejected: slices.Clone(good.Rejected), Elapsed: slices.Clone(good.Elapsed), Weight: slices.Clone(good.Weight),
		}
		spoil(&host, r)
		f := &usage.Fanout{Host: host, Placement: me{}, Peers: me{}, Self: "me", Here: here}
		before := count("updates_refused")
		f.Update(t.Context(), r, time.Second, func(_ usage.Part, g *usage.Grants, err error) {
			if g != nil || !errors.Is(err, rpc.ErrPayload) {
				t.Errorf("%s: %+v, %v", name, g, err)
			}
		})
		if n := count("updates_refused") - before; n != 1 {
			t.Errorf("%s is counted %d times", name, n)
		}
	}
	if here.keys.Len() != 0 {
		t.Error("a refused report made a key")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := here.ReportHere(ended, "h", good, new(usage.Grants)); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: %v", err)
	}
	if _, err := here.ClaimHere(t.Context(), "", &claims.Claims{}); !errors.Is(err, rpc.ErrPayload) {
		t.Errorf("claims of a host without a name: %v", err)
	}
}
