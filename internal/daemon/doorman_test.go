// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

const sharedRules = `
limits:
  - {key: "*", limit: 100/s, algorithm: fair-share, lease: 60s, recalculate: 0s, learning: 0s}
`

// Names that hold personal data are not in the log, whatever is wrong with a request.
func TestThePrivateNamesOfDoormansClientsAreNotLogged(t *testing.T) {
	c := config(t)
	c.Limits = write(t, "limits.yaml", `limits: [{key: "of:*", limit: 1/s, algorithm: auto, private: true}]`)
	log, logged := recording()
	d, err := Start(t.Context(), c, log)
	if err != nil {
		t.Fatal(err)
	}
	capacity := doormanpb.NewCapacityClient(dial(t, d.Edge()))
	wantsOf(t, capacity, "me", "of:alice", 1e300, nil) // corrected, and refused
	if err := d.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"a request was corrected", "a resource gets no lease"} {
		if !strings.Contains(logged(), line) {
			t.Errorf("%q is not logged", line)
		}
	}
	if !strings.Contains(logged(), "of:#") || strings.Contains(logged(), "alice") {
		t.Errorf("logged %s", logged())
	}
}

// Doorman's server dies of clients that release while others ask.
func TestDoormansClientsMayAskAndReleaseAtOnce(t *testing.T) {
	c := config(t)
	c.Limits = write(t, "limits.yaml", sharedRules)
	d := start(t, c)
	capacity := doormanpb.NewCapacityClient(dial(t, d.Edge()))
	release := func(client string) {
		if _, err := capacity.ReleaseCapacity(t.Context(), &doormanpb.ReleaseCapacityRequest{ClientId: &client, ResourceId: []string{"a/b", ""}}); err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			name := fmt.Sprint("client-", i%4)
			for range 50 {
				switch i % 3 {
				case 0:
					release(name)
				case 1:
					if got := wantsOf(t, capacity, name, "a/b", 60, nil).GetCapacity(); got < 0 || got > 100 {
						t.Errorf("%s gets %v", name, got)
					}
				default:
					r, err := capacity.GetServerCapacity(t.Context(), &doormanpb.GetServerCapacityRequest{
						ServerId: &name,
						Resource: []*doormanpb.ServerCapacityResourceRequest{{
							ResourceId: new("a/b"),
							Wants:      []*doormanpb.PriorityBandAggregate{{Priority: new(int64(0)), NumClients: new(int64(2)), Wants: new(float64(i))}},
						}},
					})
					if err != nil || len(r.GetResponse()) != 1 {
						t.Errorf("%v, %v", r, err)
					}
				}
			}
		})
	}
	wg.Wait()
	for i := range 4 {
		release(fmt.Sprint("client-", i))
	}
	// What the four servers downstream hold is all that is left.
	sum := 0.0
	for i := range 4 {
		name := fmt.Sprint("client-", i)
		r, err := capacity.GetServerCapacity(t.Context(), &doormanpb.GetServerCapacityRequest{
			ServerId: &name, Resource: []*doormanpb.ServerCapacityResourceRequest{{ResourceId: new("a/b")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		sum += r.GetResponse()[0].GetGets().GetCapacity()
	}
	if got := wantsOf(t, capacity, "last", "a/b", 200, nil).GetCapacity(); sum != 0 || got != 100 {
		t.Errorf("all was given back but %v, and %v of 100 are left", sum, got)
	}
}
