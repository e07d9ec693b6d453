// SPDX-License-Identifier: Apache-2.0

package keyed_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/aggregator/keyed"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// counted gives each host the part of a key that its reports so far say.
var counted = keyed.Payload[float64, float64, float64]{
	Type: "example.com/counted",
	Ask:  func(u keyed.Use) float64 { return float64(u.Allowed) },
	Decide: func(_ time.Time, _ string, sum *float64, cost float64) float64 {
		*sum += cost
		return *sum
	},
	Grant:   func(sum float64) keyed.Grant { return keyed.Grant{Weight: sum / 100, Burst: sum, Lease: time.Second} },
	MaxKeys: 3,
}

// report is usage of keys, ten of each.
func report(keys ...string) *usage.Report {
	r := &usage.Report{Keys: keys}
	for range keys {
		r.Allowed, r.Rejected = append(r.Allowed, 10), append(r.Rejected, 0)
		r.Elapsed, r.Weight = append(r.Elapsed, time.Second), append(r.Weight, 0)
	}
	return r
}

// weights is what owner grants a host that used keys; −1 for no grant.
func weights(t *testing.T, owner aggregator.Owner, keys ...string) string {
	t.Helper()
	r := report(keys...)
	payload, err := counted.Codec().EncodeReport(r)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := owner.Update(t.Context(), "host", payload)
	if err != nil {
		t.Fatal(err)
	}
	g, err := counted.Codec().DecodeGrants(answer, r)
	if err != nil {
		t.Fatal(err)
	}
	for i, lease := range g.Lease {
		if lease == 0 {
			g.Weight[i] = -1
		}
	}
	return fmt.Sprint(g.Weight)
}

// owned is a placement of all keys but "b" at this host.
type owned struct{}

func (owned) Owner(key string) string {
	if key == "b" {
		return "other"
	}
	return "me"
}

func TestEachKeyHasAStateUntilItIsForgotten(t *testing.T) {
	owner := counted.Owner()
	if got := weights(t, owner, "a", "b", "a", "\xff"); got != "[0.1 0.1 0.2 0.1]" {
		t.Error(got)
	}
	if got := weights(t, owner); got != "[]" {
		t.Error(got)
	}
	if got := weights(t, owner, "\xfe", "\xff"); got != "[-1 0.2]" { // there is no room for one more
		t.Error(got)
	}
	owner.RingMoved(aggregator.Cluster{Placement: owned{}, Self: "me"})
	if got := weights(t, owner, "a", "b"); got != "[0.3 0.1]" {
		t.Error("after b was elsewhere:", got)
	}
	owner.Sweep(time.Now().Add(keyed.DefaultKeep / 2))
	if got := weights(t, owner, "a"); got != "[0.4]" {
		t.Error(got)
	}
	owner.Sweep(time.Now().Add(2 * keyed.DefaultKeep))
	if got := weights(t, owner, "a", "c"); got != "[0.1 0.1]" {
		t.Error("after a long time:", got)
	}
}

func TestMessagesAreRefusedWhole(t *testing.T) {
	owner := counted.Owner()
	number := strings.Repeat("9", 10_000)
	for _, text := range []string{"", "{", `{"rows":[1]}`, `{"keys":["YQ=="]}`, `{"keys":[""],"rows":[1]}`, `{"keys":["YQ=="],"rows":["x"]}`, `{"keys":["YQ=="],"rows":[null],"bad":[1]}`, `{"keys":["YQ=="],"rows":[null],"bad":[-1]}`, `{"keys":["YQ=="],"rows":[` + number + `]}`} {
		if _, err := owner.Update(t.Context(), "host", &anypb.Any{TypeUrl: counted.Type, Value: []byte(text)}); !errors.Is(err, rpc.ErrPayload) || len(err.Error()) > 400 {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := counted.Codec().DecodeGrants(&anypb.Any{TypeUrl: counted.Type, Value: []byte(text)}, report("a", "b")); !errors.Is(err, rpc.ErrPayload) || len(err.Error()) > 400 {
			t.Errorf("as an answer, %s: %v", text, err)
		}
	}
	if _, err := owner.Update(t.Context(), "host", &anypb.Any{TypeUrl: "example.com/other", Value: []byte(`{}`)}); !errors.Is(err, rpc.ErrPayload) {
		t.Errorf("another type: %v", err)
	}
}

// large is a request whose text is much shorter than its memory, and which counts what is read.
type large struct{ _ [1024]byte }

var larges int

func (l *large) UnmarshalJSON([]byte) error {
	larges++
	return nil
}

// A short text does not take memory for more rows than a message may have.
func TestThereIsNoMemoryForRowsBeyondTheBound(t *testing.T) {
	owner := keyed.Payload[large, bool, bool]{Type: "example.com/large", Decide: func(time.Time, string, *bool, large) bool { return true }}.Owner()
	for _, text := range []string{
		`{"rows":[` + strings.Repeat("0,", 4*rpc.MaxKeys) + `0]}`,
		`{"rows":[0],"keys":[` + strings.Repeat(`"",`, 4*rpc.MaxKeys) + `""]}`,
		`{"rows":0}`,
	} {
		larges = 0
		_, err := owner.Update(t.Context(), "host", &anypb.Any{TypeUrl: "example.com/large", Value: []byte(text)})
		if !errors.Is(err, rpc.ErrPayload) || larges > rpc.MaxKeys {
			t.Errorf("%.20s…: %v, after %d rows", text, err, larges)
		}
	}
}

// A message whose last key is none changes the state of no key: its host gets no answer,
// and reports the same use again.
func TestARefusedMessageChangesNothing(t *testing.T) {
	owner := counted.Owner()
	payload, err := counted.Codec().EncodeReport(report("a", ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := owner.Update(t.Context(), "host", payload); !errors.Is(err, rpc.ErrPayload) {
		t.Fatal(err)
	}
	if got := weights(t, owner, "a"); got != "[0.1]" {
		t.Errorf("the first report that is answered gets %s", got)
	}
}

// A Response that is null in JSON is no grant.
func TestNoResponseIsNoGrant(t *testing.T) {
	p := keyed.Payload[int, []int, int]{
		Type: "example.com/none", Ask: func(keyed.Use) int { return 1 },
		Decide: func(time.Time, string, *int, int) []int { return nil },
		Grant:  func([]int) keyed.Grant { return keyed.Grant{Weight: 1, Lease: time.Minute} },
	}
	r := report("a")
	payload, err := p.Codec().EncodeReport(r)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := p.Owner().Update(t.Context(), "host", payload)
	if err != nil {
		t.Fatal(err)
	}
	if g, err := p.Codec().DecodeGrants(answer, r); err != nil || g.Lease[0] != 0 {
		t.Errorf("%+v, %v", g, err)
	}
}
