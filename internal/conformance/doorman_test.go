// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"math"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/headgate/headgate/rpc/edge/doorman"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// doormanClients are clients of Doorman, by name, each of which wants some of the key.
type doormanClients struct {
	c      *cluster
	client doormanpb.CapacityClient
	has    map[string]*doormanpb.Lease
}

func openDoorman(c *cluster) *doormanClients {
	l := serveGRPC(c.t, func(s grpc.ServiceRegistrar) {
		doorman.NewServer(c.nodes[0].Claimant(), doorman.ServerOptions{}).Register(s)
	})
	return &doormanClients{c, doormanpb.NewCapacityClient(dialGRPC(c.t, l)), make(map[string]*doormanpb.Lease)}
}

// ask asks for a client, which then has what it returns.
func (d *doormanClients) ask(name string, wants float64) float64 {
	response, err := d.client.GetCapacity(d.c.t.Context(), &doormanpb.GetCapacityRequest{
		ClientId: new(name),
		Resource: []*doormanpb.ResourceRequest{{ResourceId: new(key), Priority: new(int64(0)), Wants: new(wants), Has: d.has[name]}},
	})
	if err != nil || len(response.GetResponse()) != 1 {
		d.c.t.Fatalf("%v, %v", response, err)
	}
	gets := response.GetResponse()[0].GetGets()
	if ends := time.Unix(gets.GetExpiryTime(), 0); !ends.After(time.Now()) || gets.GetRefreshInterval() < 1 {
		d.c.t.Errorf("a lease that ends at %v, to be refreshed every %d s", ends, gets.GetRefreshInterval())
	}
	d.has[name] = gets
	return gets.GetCapacity()
}

func (d *doormanClients) release(name string) {
	if _, err := d.client.ReleaseCapacity(d.c.t.Context(), &doormanpb.ReleaseCapacityRequest{ClientId: new(name), ResourceId: []string{key}}); err != nil {
		d.c.t.Fatal(err)
	}
	delete(d.has, name)
}

// settled is what the clients have when each has asked for so long that nothing changes
// any more.
func (d *doormanClients) settled(wants float64, names ...string) (sum float64) {
	for range 30 {
		time.Sleep(time.Second)
		sum = 0
		for _, name := range names {
			sum += d.ask(name, wants)
		}
	}
	return sum
}

// mostLeased is how much all clients may have together.
func mostLeased(a *algorithm) float64 {
	hour := a.over(time.Hour)
	if math.IsInf(hour, 1) {
		return hour
	}
	return limit + (hour-a.over(0))/time.Hour.Seconds()
}

// leasesKeepTheLimit: all leases together are at most the limit, and over.
func leasesKeepTheLimit(t *testing.T, a *algorithm, c *cluster) {
	d := openDoorman(c)
	if !a.leases {
		if got := d.settled(80, "x", "y"); got != 0 {
			t.Errorf("clients have leases of %v", got)
		}
		return
	}
	for range 30 {
		time.Sleep(time.Second)
		x, y := d.ask("x", 80), d.ask("y", 80)
		if x > 80 || y > 80 || x+y > mostLeased(a)+1e-6 {
			t.Errorf("clients that want 80 have %v and %v", x, y)
		}
	}
	if sum := d.settled(80, "x", "y"); sum < limit-1e-6 {
		t.Errorf("clients that want more than the limit have %v", sum)
	}
}

// releasesAreExactAndOnce: what is released, others have when they ask again, and only once.
func releasesAreExactAndOnce(t *testing.T, a *algorithm, c *cluster) {
	d := openDoorman(c)
	if !a.leases {
		d.release("x") // which it does not have
		return
	}
	d.settled(80, "x", "y")
	d.release("x")
	d.release("x")
	if y := d.settled(80, "y"); y != 80 {
		t.Errorf("a client that wants 80 has %v, when the other has released all", y)
	}
	d.release("x")
	if z := d.ask("z", 80); z > mostLeased(a)-80+1e-6 {
		t.Errorf("a third client has %v, and another one 80", z)
	}
}
