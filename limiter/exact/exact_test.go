// SPDX-License-Identifier: Apache-2.0

package exact_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

type owner struct{}

func (owner) Owner(string) string { return "owner" }

// hangs never answers.
type hangs struct{}

func (hangs) Update(ctx context.Context, _ string, _ *anypb.Any) (*anypb.Any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Nobody answers. An event waits as long as its rule's ask_timeout, or what the
// caller makes of it.
func TestAnEventWaitsForItsRulesAskTimeout(t *testing.T) {
	if ask.DefaultTimeout != rule.DefaultAskTimeout {
		t.Errorf("the defaults are %v and %v", ask.DefaultTimeout, rule.DefaultAskTimeout)
	}
	for _, row := range []struct {
		askTimeout time.Duration
		waits      func(time.Duration) time.Duration
		want       time.Duration
	}{
		{0, nil, rule.DefaultAskTimeout},
		{300 * time.Millisecond, nil, 300 * time.Millisecond},
		{300 * time.Millisecond, func(d time.Duration) time.Duration { return 2 * d }, 600 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			network := rpctest.New(1)
			network.Host("owner").Serve(hangs{})
			taker := &ask.Taker{Host: "me", Placement: owner{}, Peers: network.Host("me").Peers()}
			defer taker.Close()
			for _, owners := range []*exact.Owners{exact.New(taker), exact.NewAuto(taker)} {
				if row.waits != nil {
					owners = owners.Waits(row.waits)
				}
				began := time.Now()
				_, err := owners.Do(t.Context(), stage.Operation{Key: "k", N: 1, Rule: &dynamicconfig.Rule{AskTimeout: row.askTimeout}})
				if waited := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || waited != row.want {
					t.Errorf("ask_timeout %v: waited for %v: %v", row.askTimeout, waited, err)
				}
			}
		})
	}
}
