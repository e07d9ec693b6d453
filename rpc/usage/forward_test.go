// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// pure answers each row by a hash of who asks and of the row alone, so that
// it does not matter which rows come together.
type pure struct {
	floor  usage.Floor
	tokens bool
}

func (d pure) Update(_ context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	var u usage.Report
	if err := (usage.Columnar{}).DecodeReport(payload, &u); err != nil {
		return nil, err
	}
	g := &usage.Grants{Floor: d.floor}
	for i, key := range u.Keys {
		h := fnv.New32a()
		fmt.Fprint(h, host, key, u.Algorithm, u.Allowed[i], u.Rejected[i], u.Elapsed[i], u.Weight[i], u.Wants != nil && u.Wants[i] > 5)
		n := float64(h.Sum32() % 1024)
		g.Weight = append(g.Weight, n/1024)
		g.Burst = append(g.Burst, n)
		g.Used = append(g.Used, 2*n)
		g.Lease = append(g.Lease, time.Duration(1+n)*time.Second)
		if d.tokens {
			g.Tokens = append(g.Tokens, 3*n)
		}
	}
	return usage.Columnar{}.EncodeGrants(g, u.Len())
}

// deciders are Peers by address; others cannot be reached.
type deciders map[string]rpc.Decider

var errUnreachable = errors.New("no route to host")

func (d deciders) Peer(address string) (rpc.Decider, error) {
	if d := d[address]; d != nil {
		return d, nil
	}
	return nil, errUnreachable
}

func encoded(t require, u *usage.Report) *anypb.Any {
	payload, err := usage.Columnar{}.EncodeReport(u)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func granted(t require, u *usage.Report, answer *anypb.Any, err error) *usage.Grants {
	if err != nil {
		t.Fatal(err)
	}
	g, err := usage.Columnar{}.DecodeGrants(answer, u)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// require is what *testing.T and *rapid.T have in common.
type require interface{ Fatal(args ...any) }

func TestAForwardedAnswerIsThatOfOneDeciderOfAllKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := pure{usage.Floor(rapid.IntRange(0, 3).Draw(t, "floor")), rapid.Bool().Draw(t, "tokens")}
		owners, down := deciders{}, map[string]bool{}
		for i := range rapid.IntRange(1, 5).Draw(t, "owners") {
			name := fmt.Sprint("o", i)
			if down[name] = rapid.IntRange(0, 3).Draw(t, "down") == 0; !down[name] {
				owners[name] = one
			}
		}
		u := &usage.Report{Algorithm: "elastic"}
		wants := rapid.Bool().Draw(t, "wants")
		for i := range rapid.IntRange(1, 40).Draw(t, "keys") {
			owner := fmt.Sprint("o", rapid.IntRange(0, len(down)-1).Draw(t, "owner"))
			u.Keys = append(u.Keys, fmt.Sprint(owner, ":", i))
			u.Allowed = append(u.Allowed, rapid.Int64Range(0, 1000).Draw(t, "allowed"))
			u.Rejected = append(u.Rejected, rapid.Int64Range(0, 1000).Draw(t, "rejected"))
			u.Elapsed = append(u.Elapsed, time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms"))*time.Millisecond)
			u.Weight = append(u.Weight, rapid.Float64Range(0, 1).Draw(t, "weight"))
			if wants {
				u.Wants = append(u.Wants, rapid.Float64Range(0, 10).Draw(t, "wants"))
			}
		}
		forward := &usage.Forward{Fanout: &usage.Fanout{
			Host: "edge", Placement: byPrefix{}, Peers: owners,
			Self: "o0", Local: owners["o0"],
		}}
		payload := encoded(t, u)
		answer, err := forward.Update(t.Context(), "caller", payload)
		if len(owners) == 0 {
			if err == nil {
				t.Fatal("nobody answered, and no error")
			}
			return
		}
		direct, directErr := one.Update(t.Context(), "caller", payload)
		want := granted(t, u, direct, directErr)
		answered := 0
		for i, key := range u.Keys {
			owner, _, _ := strings.Cut(key, ":")
			if !down[owner] {
				answered++
				continue
			}
			want.Unanswered = append(want.Unanswered, i)
			want.Weight[i], want.Burst[i], want.Used[i], want.Lease[i] = 0, 0, 0, 0
			if want.Tokens != nil {
				want.Tokens[i] = 0
			}
		}
		if answered == 0 {
			if !errors.Is(err, errUnreachable) {
				t.Fatalf("none of the owners is there: %v", err)
			}
			return
		}
		if got := granted(t, u, answer, err); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestAForwardAnswersBeforeItsCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := rpctest.New(1)
		network.Host("good").Serve(pure{})
		network.Cut("edge", "mute")
		var failed []string
		forward := &usage.Forward{
			Fanout: &usage.Fanout{Placement: byPrefix{}, Peers: network.Host("edge").Peers()},
			Failed: func(part usage.Part, err error) { failed = append(failed, part.Owner) },
		}
		u := usageOf("good:1", "mute:1")
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		began := time.Now()
		answer, err := forward.Update(ctx, "caller", encoded(t, u))
		if took := time.Since(began); took != 300*time.Millisecond {
			t.Errorf("it took %v of 400ms", took)
		}
		if g := granted(t, u, answer, err); g.Lease[0] == 0 || g.Lease[1] != 0 {
			t.Errorf("leases %v: want one, and none from the mute", g.Lease)
		}
		if fmt.Sprint(failed) != "[mute]" {
			t.Errorf("failed: %v", failed)
		}
		// Without a deadline it does not wait for ever.
		began = time.Now()
		if _, err := forward.Update(t.Context(), "caller", encoded(t, usageOf("mute:1"))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("only the mute: %v", err)
		}
		if took := time.Since(began); took != usage.ForwardTimeout {
			t.Errorf("it took %v", took)
		}
	})
}

func TestOwnersOfTwoMindsAreNotMixed(t *testing.T) {
	forward := &usage.Forward{Fanout: &usage.Fanout{Placement: byPrefix{}, Peers: deciders{
		"drop": pure{floor: usage.FloorDrop}, "share": pure{tokens: true},
	}}}
	u := usageOf("drop:1", "share:1", "share:2", "drop:2", "share:3")
	answer, err := forward.Update(t.Context(), "caller", encoded(t, u))
	g := granted(t, u, answer, err)
	if g.Floor != usage.FloorNone || g.Tokens == nil {
		t.Errorf("the few had their way: %+v", g)
	}
	for i, key := range u.Keys {
		if has := g.Lease[i] > 0; has != strings.HasPrefix(key, "share") {
			t.Errorf("%s: lease %v", key, g.Lease[i])
		}
	}
}

func TestAForwardRefusesWhatIsNoUsage(t *testing.T) {
	forward := &usage.Forward{Fanout: &usage.Fanout{Placement: byPrefix{}, Peers: deciders{"a": pure{}}}}
	good := encoded(t, usageOf("a:1"))
	for _, tc := range []struct {
		name, host string
		payload    *anypb.Any
	}{
		{"nothing", "me", nil},
		{"another type", "me", anyOf(t, wrapperspb.String("x"))},
		{"no protobuf", "me", &anypb.Any{TypeUrl: usage.ReportTypeURL, Value: []byte{0xff}}},
		{"no host", "", good},
		{"a host beyond reason", strings.Repeat("h", rpc.MaxKeyLength+1), good},
	} {
		if answer, err := forward.Update(t.Context(), tc.host, tc.payload); !errors.Is(err, rpc.ErrPayload) || answer != nil {
			t.Errorf("%s: %v, %v", tc.name, answer, err)
		}
	}
	none := &usage.Report{}
	answer, err := forward.Update(t.Context(), "me", encoded(t, none))
	if g := granted(t, none, answer, err); len(g.Weight) != 0 {
		t.Errorf("no keys: %+v", g)
	}
}

func TestWhoAsksAnEdgeHearsOfEachKeyWhetherItsOwnerAnswered(t *testing.T) {
	edge := &usage.Forward{Fanout: &usage.Fanout{Placement: byPrefix{}, Peers: deciders{"a": pure{tokens: true}, "b": pure{tokens: true}}}}
	direct := &usage.Fanout{Host: "me", Placement: byPrefix{}, Peers: edge.Fanout.Peers}
	through := &usage.Fanout{Host: "me", Placement: oneOwner{}, Peers: deciders{"edge": edge}}
	u := usageOf("a:1", "gone:1", "b:1", "a:2", "away:1", "b:2")
	u.Wants = []float64{1, 2, 3, 4, 5, 6}
	type said struct {
		grant string
		err   bool
	}
	hear := func(f *usage.Fanout) map[string]said {
		heard := make(map[string]said)
		f.Update(t.Context(), u, time.Second, func(p usage.Part, g *usage.Grants, err error) {
			if (g == nil) == (err == nil) || err == nil && g.Check(len(p.Rows)) != nil || err != nil && f == through && (!errors.Is(err, usage.ErrUnanswered) || p.Owner == "edge") {
				t.Errorf("%+v: %+v, %v", p, g, err)
			}
			for i, row := range p.Rows {
				if p.Usage.Keys[i] != u.Keys[row] || p.Usage.Wants[i] != u.Wants[row] || p.Usage.Allowed[i] != u.Allowed[row] {
					t.Errorf("row %d is %q", row, p.Usage.Keys[i])
				}
				s := said{err: err != nil}
				if err == nil {
					s.grant = fmt.Sprint(g.Weight[i], g.Burst[i], g.Used[i], g.Lease[i], g.Tokens[i])
				}
				if _, twice := heard[u.Keys[row]]; twice {
					t.Errorf("%q: answered twice", u.Keys[row])
				}
				heard[u.Keys[row]] = s
			}
		})
		return heard
	}
	if got, want := hear(through), hear(direct); !reflect.DeepEqual(got, want) || len(got) != u.Len() {
		t.Errorf("through the edge %v\nby oneself      %v", got, want)
	}
}

// oneOwner places every key on the edge.
type oneOwner struct{}

func (oneOwner) Owner(string) string { return "edge" }
