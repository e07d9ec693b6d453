// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/edge"
)

// unreachable is a remote bucket that never answers.
type unreachable struct{}

func (unreachable) Do(context.Context, stage.Operation) (stage.Outcome, error) {
	return stage.Outcome{}, errors.New("nobody is there")
}

// The asks of a batch for one key are decided in their order, whatever their kinds: a charge
// after a take does not have the tokens that the take finds.
func TestABatchDecidesAboutAKeyInItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := dynamicconfig.Parse("limits.yaml", []byte("limits: [{key: '*', limit: 1/s, burst: 4, algorithm: exact, fallback: even}]"))
		if err != nil {
			t.Fatal(err)
		}
		e := New(limiter.NewGroup(s, 1, limiter.WithRemote("exact", unreachable{})), nil)
		for _, key := range []string{"taken", "charged"} { // the fallback decides from now on, with 3 of 4 tokens
			e.Decide(t.Context(), edge.Ask{Key: key, Cost: 1})
		}
		got := e.DecideAll(t.Context(), []edge.Ask{
			{Key: "taken", Cost: 3},
			{Key: "taken", Cost: 3, Kind: edge.Charge},
			{Key: "charged", Cost: 3, Kind: edge.Charge},
			{Key: "charged", Cost: 3},
		})
		for i, want := range []bool{true, true, true, false} {
			if got[i].OK != want {
				t.Errorf("ask %d: %+v, want OK: %t", i, got[i], want)
			}
		}
		synctest.Wait()
	})
}
