// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/headgatetest"
	"github.com/headgate/headgate/rpc/claims"
)

// Without a cluster above, keys that share what it leases have nothing but their fallback, as
// docs/leases.md says.
func TestWithoutAParentKeysUseTheirFallback(t *testing.T) {
	for fallback, want := range map[string]int{
		"even":                          1000,
		"closed":                        0,
		"safe, safe_capacity: 3/s":      300,
		"even, algorithm: fair-share":   1000,
		"closed, algorithm: fair-share": 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			node := headgatetest.NewNode(t, `limits: [{key: k, limit: 10/s, burst: 10, parent: true, learning: 0s, fallback: `+fallback+`}]`)
			allowed := 0
			for range 2000 {
				if node.For("k").Allow() {
					allowed++
				}
				time.Sleep(50 * time.Millisecond)
			}
			if allowed < want || allowed > want+10 {
				t.Errorf("fallback %s: %d of %d", fallback, allowed, want)
			}
		})
	}
}

// The log says so, of the limits that a Node starts with and of each change.
func TestARuleThatNamesAParentIsLoggedWithoutOne(t *testing.T) {
	const text = "limits: [{key: k, limit: 10/s, parent: true}]"
	for _, tt := range []struct {
		first string
		opts  []headgate.Option
		want  [2]int // lines at the start, and after the limits changed to text
	}{
		{"limits: []", nil, [2]int{0, 1}},
		{"limits: [{key: k, limit: 20/s, parent: true}]", nil, [2]int{1, 2}},
		{"limits: [{key: k, limit: 20/s, parent: true}]", []headgate.Option{headgate.WithParent("eu", noLeases{})}, [2]int{0, 0}},
	} {
		var log logged
		source := memory.New(limits(t, tt.first))
		l := listen(t)
		n, err := headgate.New(headgate.Config{Address: l.Addr().String()}, source, membersAt(t, l), append(tt.opts, headgate.WithListen(l), log.option())...)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		lines := func() int { return log.count("a rule says `parent: true`, but there is no cluster above") }
		if got := lines(); got != tt.want[0] {
			t.Errorf("%s: %d lines at the start", tt.first, got)
		}
		source.Set(limits(t, text))
		eventually(t, "the limits change", func() bool { return n.Limits().Applied() > 0 })
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if got := lines(); got != tt.want[1] {
			t.Errorf("%s: %d lines after the change", tt.first, got)
		}
	}
}

// noLeases is a cluster above that leases nothing.
type noLeases struct{}

func (noLeases) Claim(context.Context, *claims.Claims) (*claims.Leases, []error) {
	return new(claims.Leases), nil
}
