// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
)

// lending leases to every claim what its first band wants, and names itself
// as the algorithm, so that a test can see who answered what.
func lending(name string) rpc.Decider {
	return rpc.DeciderFunc(func(_ context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
		c, err := claims.Decode(payload)
		if err != nil {
			return nil, err
		}
		l := &claims.Leases{}
		for _, row := range c.Rows {
			lease := claims.Lease{Algorithm: name + " for " + host}
			if !row.Release {
				lease.Amount, lease.Lasts = row.Bands[0].Wants, time.Minute
			}
			l.Rows = append(l.Rows, lease)
		}
		return claims.EncodeLeases(l, len(c.Rows))
	})
}

func claimsOf(keys ...string) *claims.Claims {
	c := &claims.Claims{}
	for i, key := range keys {
		c.Rows = append(c.Rows, claims.Claim{Key: key, Host: "client", Bands: []claims.Band{{Clients: 1, Wants: float64(i + 1)}}})
	}
	return c
}

func TestClaimsGoToTheOwnersAndEachCostsItsOwnRowsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := rpctest.New(1)
		network.Bytes(true)
		for _, name := range []string{"local", "good", "other", "mute", "slow"} {
			network.Host(name).Serve(lending(name))
		}
		network.Cut("me", "mute")
		network.SetFaults("me", "slow", rpctest.Faults{Delay: 2 * time.Second})
		network.Host("panics").Serve(rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { panic("boom") }))
		network.Host("lies").Serve(rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) {
			return claims.EncodeLeases(sampleLeases(), 4)
		}))
		c := &claims.Claimant{
			Host: "me", Placement: byPrefix{}, Peers: network.Host("me").Peers(), Timeout: 3 * time.Second,
		}
		asked := claimsOf("good:1", "local:1", "mute:1", "other:1", "panics:1", "good:2", "gone:1", "lies:1", ":1", "slow:1")
		began := time.Now()
		leases, errs := c.Claim(t.Context(), asked)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %v; the slowest has a timeout of 3s", took)
		}
		if len(leases.Rows) != len(asked.Rows) || len(errs) != len(asked.Rows) {
			t.Fatalf("%d leases, %d errors", len(leases.Rows), len(errs))
		}
		for i, want := range []string{
			"good for me", "local for me", `claim 1 key at "mute": context deadline exceeded`, "other for me", `claim 1 key at "panics": panic: boom`,
			"good for me", "connection refused", "answer every row", "no host owns", "slow for me",
		} {
			if l := leases.Rows[i]; errs[i] == nil && (l.Algorithm != want || l.Amount != float64(i+1)) {
				t.Errorf("row %d: %+v, want %v by %q", i, l, i+1, want)
			}
			if errs[i] != nil && (leases.Rows[i] != claims.Lease{} || !strings.Contains(errs[i].Error(), want)) {
				t.Errorf("row %d: %v beside %+v, want %q", i, errs[i], leases.Rows[i], want)
			}
		}
		if n := network.Sent("me", "good"); n != 1 {
			t.Errorf("%d calls for two keys of one owner", n)
		}
	})
}

func TestGoodClaimsHaveNoErrors(t *testing.T) {
	c := &claims.Claimant{Host: "me", Placement: byPrefix{}, Peers: deciders{"local": lending("l")}}
	for _, asked := range []*claims.Claims{{}, claimsOf("local:1"), claimsOf("local:1", "local:2")} {
		leases, errs := c.Claim(t.Context(), asked)
		if errs != nil || len(leases.Rows) != len(asked.Rows) {
			t.Errorf("%d claims: %+v %v", len(asked.Rows), leases, errs)
		}
	}
}

func TestNobodyToAskIsAnError(t *testing.T) {
	c := &claims.Claimant{Host: "me", Placement: byPrefix{}} // without Peers
	var panicked *rpc.PanicError
	if _, errs := c.Claim(t.Context(), claimsOf("remote:1")); len(errs) != 1 || !errors.As(errs[0], &panicked) {
		t.Errorf("%v", errs)
	}
}

func TestClaimsAgainstTheContractReachNobody(t *testing.T) {
	asked := rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) {
		t.Error("asked")
		return nil, errors.New("asked")
	})
	c := &claims.Claimant{Host: "me", Placement: byPrefix{}, Peers: deciders{"local": asked}}
	bad := claimsOf("local:1", "local:2")
	bad.Rows[1].Has = -1
	leases, errs := c.Claim(t.Context(), bad)
	if len(leases.Rows) != 2 || len(errs) != 2 {
		t.Fatal(leases, errs)
	}
	for _, err := range errs {
		wantRefused(t, err, "row 1: has is -1")
	}
}

func TestClaimsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := rpctest.New(1)
		network.Host("mute").Serve(lending("mute"))
		network.Cut("me", "mute")
		c := &claims.Claimant{Host: "me", Placement: byPrefix{}, Peers: network.Host("me").Peers()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, errs := c.Claim(ctx, claimsOf("mute:1"))
		if took := time.Since(began); took != time.Second || !errors.Is(errs[0], context.DeadlineExceeded) {
			t.Errorf("%v after %v", errs, took)
		}
		began = time.Now()
		_, errs = c.Claim(t.Context(), claimsOf("mute:1"))
		if took := time.Since(began); took != claims.DefaultTimeout || !errors.Is(errs[0], context.DeadlineExceeded) {
			t.Errorf("%v after %v", errs, took)
		}
	})
}

func TestManyClaimsGoInPartsThatTransportsTake(t *testing.T) {
	var mu sync.Mutex // protects the following
	largest, calls := 0, 0
	c := &claims.Claimant{
		Host: "me", Placement: byPrefix{},
		Peers: deciders{"local": rpc.DeciderFunc(func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
			mu.Lock()
			largest, calls = max(largest, len(payload.Value)), calls+1
			mu.Unlock()
			return lending("l").Update(ctx, host, payload)
		})},
	}
	long := make([]string, 6000)
	for i := range long {
		long[i] = fmt.Sprintf("local:%0900d", i)
	}
	many := make([]string, 25_000)
	for i := range many {
		many[i] = fmt.Sprintf("local:%d", i)
	}
	for _, row := range []struct {
		keys  []string
		calls int
	}{{long, 2}, {many, 3}} {
		largest, calls = 0, 0
		leases, errs := c.Claim(t.Context(), claimsOf(row.keys...))
		if errs != nil {
			t.Fatal(errs[0])
		}
		for i, l := range leases.Rows {
			if l.Amount != float64(i+1) {
				t.Fatalf("row %d: %v", i, l.Amount)
			}
		}
		if largest > 4<<20-1<<10 || calls != row.calls {
			t.Errorf("%d keys in %d calls of up to %d bytes, want %d calls", len(row.keys), calls, largest, row.calls)
		}
	}
}

func ExampleClaimant_Claim() {
	network := rpctest.New(1)
	network.Host("10.0.0.2:7500").Serve(lending("fair-share"))
	claimant := &claims.Claimant{
		Host:      "10.0.0.1:7500",
		Placement: owners{"db:orders": "10.0.0.2:7500", "db:users": "10.0.0.3:7500"},
		Peers:     network.Host("10.0.0.1:7500").Peers(),
	}
	asked := &claims.Claims{Rows: []claims.Claim{
		{Key: "db:orders", Host: "batch-1", Bands: []claims.Band{{Priority: 10, Clients: 1, Wants: 120}}},
		{Key: "db:users", Host: "batch-1", Bands: []claims.Band{{Priority: 10, Clients: 1, Wants: 5}}},
	}}
	leases, errs := claimant.Claim(context.Background(), asked)
	for i, row := range asked.Rows {
		if errs != nil && errs[i] != nil {
			fmt.Printf("%s: %v\n", row.Key, errs[i])
			continue
		}
		fmt.Printf("%s: %v for %v\n", row.Key, leases.Rows[i].Amount, leases.Rows[i].Lasts)
	}
	// Output:
	// db:orders: 120 for 1m0s
	// db:users: claim 1 key at "10.0.0.3:7500": call "10.0.0.3:7500": rpctest: connection refused
}
