// SPDX-License-Identifier: Apache-2.0

package keyed_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator/keyed"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// everywhere is a placement of all keys at one owner.
type everywhere struct{}

func (everywhere) Owner(string) string { return "owner" }

// answered is what a host with p hears about keys: the weights that are granted, why rows were
// refused, why keys were not answered, and in how many messages it asked.
type answered struct {
	weights  map[string]float64
	refused  []error
	failed   error
	messages int
}

func ask[Q, A, S any](t *testing.T, p keyed.Payload[Q, A, S], keys ...string) (got answered) {
	t.Helper()
	network := rpctest.New(1)
	network.Host("owner").Serve(p.Owner())
	var mu sync.Mutex // protects got.refused
	f := &usage.Fanout{
		Host: "me", Placement: everywhere{}, Peers: network.Host("me").Peers(), Codecs: map[string]usage.Codec{"mine": p.Codec()},
		Refused: func(algorithm string, err error) {
			mu.Lock()
			defer mu.Unlock()
			if got.refused = append(got.refused, err); algorithm != "mine" {
				t.Errorf("rows of %s are refused", algorithm)
			}
		},
	}
	r := report(keys...)
	r.Algorithm = "mine"
	got.weights = make(map[string]float64)
	f.Update(t.Context(), r, 10*time.Second, func(part usage.Part, g *usage.Grants, err error) {
		if got.messages++; err != nil {
			got.failed = err
			return
		}
		for i, row := range part.Rows {
			if g.Lease[i] > 0 {
				got.weights[r.Keys[row]] += g.Weight[i]
			}
		}
	})
	return got
}

// A row that is bad at one of the three functions has no grant. The other keys have theirs, and
// the host hears of it.
func TestABadRowCostsItsOwnKeyAGrant(t *testing.T) {
	bad := func(key string) float64 {
		if key == "bad" {
			return math.NaN()
		}
		return 0.25
	}
	for name, p := range map[string]keyed.Payload[any, any, int]{
		"Ask": {
			Ask:    func(u keyed.Use) any { return bad(u.Key) },
			Decide: func(_ time.Time, _ string, _ *int, r any) any { return r },
			Grant:  func(a any) keyed.Grant { return keyed.Grant{Weight: a.(float64), Lease: time.Minute} },
		},
		"Decide": {
			Ask:    func(u keyed.Use) any { return u.Key },
			Decide: func(_ time.Time, _ string, _ *int, r any) any { return bad(r.(string)) },
			Grant:  func(a any) keyed.Grant { return keyed.Grant{Weight: a.(float64), Lease: time.Minute} },
		},
		"Grant": {
			Ask:    func(u keyed.Use) any { return u.Key },
			Decide: func(_ time.Time, _ string, _ *int, r any) any { return r },
			Grant:  func(a any) keyed.Grant { return keyed.Grant{Weight: bad(a.(string)), Lease: time.Minute} },
		},
	} {
		p.Type = "example.com/bad"
		for range 2 {
			got := ask(t, p, "a", "bad", "b")
			if want := "map[a:0.25 b:0.25]"; fmt.Sprint(got.weights) != want || got.failed != nil {
				t.Errorf("%s: weights %v, want %s: %v", name, got.weights, want, got.failed)
			}
			if len(got.refused) != 1 || !errors.Is(got.refused[0], rpc.ErrPayload) || !strings.Contains(got.refused[0].Error(), "NaN") {
				t.Errorf("%s: the host hears %v, want one error about NaN", name, got.refused)
			}
		}
	}
}

// sized asks about each key with so many bytes, and is answered with so many.
func sized(asks, answers int) keyed.Payload[string, string, int] {
	return keyed.Payload[string, string, int]{
		Type:   "example.com/sized",
		Ask:    func(keyed.Use) string { return strings.Repeat("q", asks) },
		Decide: func(time.Time, string, *int, string) string { return strings.Repeat("a", answers) },
		Grant:  func(string) keyed.Grant { return keyed.Grant{Weight: 1, Lease: time.Minute} },
	}
}

// Requests that are too large for one message go in several. Where that does not help, the
// error says what to do.
func TestLargeMessagesAreDividedOrSaySo(t *testing.T) {
	keys := make([]string, 1100)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	if got := ask(t, sized(4000, 10), keys...); got.failed != nil || got.messages != 2 || len(got.weights) != len(keys) {
		t.Errorf("requests of 4.4 MB: %d keys are granted after %d messages: %v", len(got.weights), got.messages, got.failed)
	}
	if got := ask(t, sized(10, 4000), keys...); got.failed == nil || !strings.Contains(got.failed.Error(), "let a Response have 300 bytes at most") {
		t.Errorf("responses of 4.4 MB: %v", got.failed)
	}
	got := ask(t, sized(4<<20, 10), "large")
	if got.failed == nil || !strings.Contains(got.failed.Error(), "make requests smaller") {
		t.Errorf("a request of 4 MiB: %v", got.failed)
	}
}
