// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

// A caller that needs more slots than its host has lets others pass. So the explanation does not say
// that they are refused because of it.
func TestACallerThatNeedsMoreSlotsThanThereAreKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, err := dynamicconfig.Parse("limits", []byte("limits: [{key: k, limit: 10 in-flight}]"))
		if err != nil {
			t.Fatal(err)
		}
		g := limiter.NewGroup(limits, 2)
		k := g.For("k")
		ctx, cancel := context.WithCancel(t.Context())
		wait := func(n int) {
			go func() { _, _ = k.Acquire(ctx, n) }()
			synctest.Wait()
		}
		defer synctest.Wait()
		defer cancel()
		wait(8)
		for held := range 7 {
			if held == 6 {
				wait(2)
			}
			said := Look(g, limits, 2, "k")
			release, ok := k.TryAcquire(1)
			defer release()
			if said.Refuses == ok || said.Waiting != 8 && held < 6 {
				t.Errorf("%d are held, and one more is taken: %t. It says %t, %d waited for: %s", held, ok, said.Refuses, said.Waiting, said.Because)
			}
			if aside := strings.Contains(said.Because, "8 slots are waited for by callers that need more than this host has, and let others pass"); !aside {
				t.Errorf("%d are held: %s", held, said.Because)
			}
		}
	})
}
