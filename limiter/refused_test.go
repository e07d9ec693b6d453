// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"errors"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// A key without a bucket cannot be charged, and callers learn why.
func TestAKeyWithoutABucketSaysWhy(t *testing.T) {
	g := NewGroup(snapshot(t, dynamicconfig.Rule{Key: "k*", Limit: 1, Burst: 1, Algorithm: Even, MaxKeys: 1}), 1)
	g.For("k1").Allow()
	over := g.For("k2")
	err := over.Wait(t.Context())
	if !errors.Is(err, ErrTooManyKeys) || !strings.Contains(err.Error(), `rule "k*" with max_keys 1`) {
		t.Errorf("the wait says %v", err)
	}
	for l, want := range map[*Limiter]Reason{over: TooManyKeys, g.For(""): InvalidKey, g.For("k1"): Granted} {
		if v, _ := l.Stage().Take(t.Context(), stage.Request{N: 1, Kind: stage.Charge}); v.Reason != want {
			t.Errorf("a charge of %q says %v, want %v", l.Key(), v.Reason, want)
		}
	}
}
