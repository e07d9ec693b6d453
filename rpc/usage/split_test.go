// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// byPrefix gives a key to the host named before its colon.
type byPrefix struct{}

func (byPrefix) Owner(key string) string {
	owner, _, _ := strings.Cut(key, ":")
	return owner
}

func usageOf(keys ...string) *usage.Report {
	u := &usage.Report{Algorithm: "elastic"}
	for i, key := range keys {
		u.Keys = append(u.Keys, key)
		u.Allowed = append(u.Allowed, int64(i))
		u.Rejected = append(u.Rejected, int64(i)*10)
		u.Elapsed = append(u.Elapsed, time.Duration(i+1)*time.Second)
		u.Weight = append(u.Weight, 1/float64(i+1))
	}
	return u
}

func TestSplitGroupsByOwner(t *testing.T) {
	u := usageOf("b:1", "a:1", "b:2", "b:3", "a:2", ":none")
	parts := usage.Split(u, byPrefix{})
	want := []struct {
		owner string
		rows  []int
		err   error
	}{
		{"b", []int{0, 2, 3}, nil},
		{"a", []int{1, 4}, nil},
		{"", []int{5}, rpc.ErrNoOwner},
	}
	if len(parts) != len(want) {
		t.Fatalf("%d parts, want %d", len(parts), len(want))
	}
	for i, w := range want {
		if p := parts[i]; p.Owner != w.owner || !slices.Equal(p.Rows, w.rows) || !errors.Is(p.Err, w.err) || p.Usage.Algorithm != "elastic" {
			t.Errorf("part %d is %q %v %v, want %q %v %v", i, p.Owner, p.Rows, p.Err, w.owner, w.rows, w.err)
		}
	}
}

func TestSplitPutsEveryRowInOnePart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var keys []string
		for range rapid.IntRange(0, 50).Draw(t, "keys") {
			keys = append(keys, rapid.StringMatching(`[a-d]?:[0-9]`).Draw(t, "key"))
		}
		u := usageOf(keys...)
		seen := make([]bool, len(keys))
		for _, p := range usage.Split(u, byPrefix{}) {
			if p.Owner == "" && p.Err == nil || p.Owner != "" && p.Err != nil {
				t.Fatalf("%q has %d keys, %v", p.Owner, p.Usage.Len(), p.Err)
			}
			if !slices.IsSorted(p.Rows) || len(p.Rows) != p.Usage.Len() {
				t.Fatalf("rows %v of %d keys", p.Rows, p.Usage.Len())
			}
			for i, row := range p.Rows {
				if seen[row] {
					t.Fatalf("row %d is in two parts", row)
				}
				seen[row] = true
				if p.Usage.Keys[i] != u.Keys[row] || p.Usage.Allowed[i] != u.Allowed[row] || p.Usage.Rejected[i] != u.Rejected[row] ||
					p.Usage.Elapsed[i] != u.Elapsed[row] || p.Usage.Weight[i] != u.Weight[row] {
					t.Fatalf("row %d of part %q is not row %d", i, p.Owner, row)
				}
				if (byPrefix{}).Owner(u.Keys[row]) != p.Owner {
					t.Fatalf("%q went to %q", u.Keys[row], p.Owner)
				}
			}
		}
		if slices.Contains(seen, false) {
			t.Fatalf("rows without a part: %v", seen)
		}
	})
}

func TestSplitKeepsLongKeysBelowTheMessageBound(t *testing.T) {
	var keys []string
	long := "a:" + strings.Repeat("k", rpc.MaxKeyLength-2)
	for range rpc.KeysPerCall {
		keys = append(keys, long)
	}
	parts := usage.Split(usageOf(keys...), byPrefix{})
	for i, p := range parts {
		payload, err := usage.Columnar{}.EncodeReport(p.Usage)
		if err != nil {
			t.Fatal(err)
		}
		if len(payload.Value) > 4<<20-1024 {
			t.Errorf("part %d of %d has %d bytes", i, len(parts), len(payload.Value))
		}
	}
}

func TestAFullPartIsFollowedByAnother(t *testing.T) {
	keys := make([]string, rpc.KeysPerCall+2)
	for i := range keys {
		keys[i] = "a:k"
	}
	keys[3] = "b:k"
	var sizes []int
	for _, p := range usage.Split(usageOf(keys...), byPrefix{}) {
		sizes = append(sizes, p.Usage.Len())
	}
	if want := []int{rpc.KeysPerCall, 1, 1}; !slices.Equal(sizes, want) {
		t.Errorf("parts have %v keys, want %v", sizes, want)
	}
}

func TestSplitRefusesColumnsThatDisagree(t *testing.T) {
	u := usageOf("a:1", "a:2")
	u.Weight = u.Weight[:1]
	parts := usage.Split(u, byPrefix{})
	if len(parts) != 1 || len(parts[0].Rows) != 2 {
		t.Fatalf("%+v", parts)
	}
	wantRefused(t, parts[0].Err, "columns disagree")
}
