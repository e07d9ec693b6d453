// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// A key in a message whose rule names another algorithm, or that overlaps an earlier report, changes nothing for
// the keys behind it.
func TestRowsOfAMessageAreApart(t *testing.T) {
	other, own := every("auto"), every("elastic")
	other.Key = "other:*"
	a := New(algorithm.Builtin(), snapshot(t, cadence, other, own))
	for now := time.Duration(0); now < 9*s; now += 3 * s {
		for _, order := range [][]string{{"other:k", "k"}, {"k", "other:k"}} {
			g := step(t, a, now, "h", reportOf("elastic", 1, 0, 3*s, order...))
			for i, key := range order {
				if granted := g.Lease[i] > 0; granted != (key == "k") && now > 0 {
					t.Errorf("at %v, %s of %v gets a grant: %v", now, key, order, granted)
				}
			}
		}
	}
}

// What an owner refuses takes nothing, so there is nothing to give back when its caller withdraws it.
func TestWhatIsRefusedGivesNothingBack(t *testing.T) {
	rule := exactRule(0.001, 5)
	rule.Key = "k"
	for name, refused := range map[string]usage.Take{
		"a key without a rule":      {Key: "other", Tokens: 3},
		"a hand-over of a stranger": {Key: "k", Tokens: 3, Handed: true, By: 7},
		"more than there is":        {Key: "k", Tokens: 6},
	} {
		a := under(t, rule)
		a.fence.Move(0, func(host string) bool { return host == "member" })
		took(t, a, 0, usage.Take{Tokens: 4})
		send := func(m usage.Takes) {
			payload, err := usage.EncodeTakes(&m)
			if err == nil {
				var answer *anypb.Any
				if answer, err = a.StepTakes(t.Context(), 0, "h", payload); err == nil {
					err = usage.DecodeTaken(answer, len(m.Rows), new(usage.Taken))
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		send(usage.Takes{Caller: 9, Batch: 1, Rows: []usage.Take{refused}})
		all := rule
		all.Key = "*"
		if err := a.Configure(snapshot(t, dynamicconfig.Properties{}, all)); err != nil {
			t.Fatal(err)
		}
		took(t, a, 0, usage.Take{Key: "other", Tokens: 4})
		send(usage.Takes{Caller: 9, Batch: 2, Withdrawn: []uint64{1}})
		for _, key := range []string{"k", "other"} {
			if got := took(t, a, 0, usage.Take{Key: key}).Left; !near(got, 1) {
				t.Errorf("%s: %v of %s are left, want 1", name, got, key)
			}
		}
	}
}

// An owner hands over the keys that it owns no more, and of these the full ones too of which hosts hold something.
func TestBucketsThatMoveAreHandedOver(t *testing.T) {
	a := under(t, autoRule(100, 100))
	for _, key := range []string{"stays", "moves", "full"} {
		step(t, a, 0, "h", reportOf("auto", 0, 0, s, key))
		if key != "full" {
			took(t, a, s, usage.Take{Key: key, Auto: true, Tokens: 90})
		}
	}
	moved := make(map[string]bool)
	for _, row := range a.Buckets(s, func(key string) bool { return key != "stays" }) {
		moved[row.Key] = true
	}
	if len(moved) != 2 || !moved["moves"] || !moved["full"] {
		t.Errorf("%v are handed over", moved)
	}
}
