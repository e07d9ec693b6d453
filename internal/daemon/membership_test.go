// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/ringpop"
)

func TestADaemonMayBeAnEdgeThatOwnsNothing(t *testing.T) {
	at := addresstest.Free(t, 1)[0] // for TCP and for UDP
	c := config(t)
	c.Zone, c.Gossip = "z1", Gossip{Seeds: []string{at}, Listen: at} // alone by its own seed: nobody is waited for
	decider := start(t, c)

	c = config(t)
	c.Gossip, c.Role = Gossip{Seeds: []string{at}, Listen: "127.0.0.1:0"}, RoleEdge
	edge := start(t, c)
	for _, d := range []*Daemon{decider, edge} {
		waittest.Until(t, "both know each other", func() bool { return len(d.Cluster().Members) == 2 })
		for _, m := range d.Cluster().Members {
			switch {
			case m.Address == decider.Address() && (m.State != ringpop.Up || m.Share != 1 || m.Labels != "zone=z1"):
				t.Errorf("the decider is %+v", m)
			case m.Address == edge.Address() && (m.State != ringpop.Observer || m.Share != 0):
				t.Errorf("the edge is %+v", m)
			}
		}
		if owner := d.Node().Ring().Owner("k"); owner != decider.Address() {
			t.Errorf("%s takes %s for the owner", d.Address(), owner)
		}
	}
}

// A daemon that gossips, and that the others do not reach at its address, owns no keys by its own ring either: else it
// would grant the limit once more to the programs that call it.
func TestADaemonThatIsNotReachedOwnsNothing(t *testing.T) {
	at := addresstest.Free(t, 3)
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", at[1]) // accepts connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var all []*Daemon
	for i := range 3 {
		c := config(t)
		c.Gossip = Gossip{Seeds: []string{at[0]}, Listen: "127.0.0.1:0"}
		switch i {
		case 0:
			c.Gossip.Listen = at[0]
		case 2:
			c.Address, c.Listen = at[1], at[2]
		}
		all = append(all, start(t, c))
	}
	lost := all[2]
	for _, d := range all {
		waittest.Until(t, "it is on no ring", func() bool { return d.Node().Ring().Len() == 2 && !d.Node().Ring().Has(lost.Address()) })
	}
	if err := lost.health().Checks["members"].Error; !strings.Contains(err, "get no answer at its address") {
		t.Errorf("its operators read %q", err)
	}

	// The others reach it.
	if err := silent.Close(); err != nil {
		t.Fatal(err)
	}
	reached, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", at[1])
	if err != nil {
		t.Fatal(err)
	}
	defer reached.Close()
	go func() {
		for {
			conn, err := reached.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				there, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at[2])
				if err != nil {
					return
				}
				defer there.Close()
				go func() {
					defer there.Close()
					_, _ = io.Copy(there, conn)
				}()
				_, _ = io.Copy(conn, there)
			}()
		}
	}()
	for _, d := range all {
		waittest.Until(t, "it is back", func() bool { return d.Node().Ring().Len() == 3 })
	}
}

func TestWhatIsSaidOfMembersIsChecked(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"choose one":        func(c *Config) { c.Members, c.Gossip.Seeds = []string{"a:1"}, []string{"b:1"} },
		"one name alone":    func(c *Config) { c.Members = []string{"dns:///a:1", "b:1"} },
		"dns:///headgate":   func(c *Config) { c.Members = []string{"dns:///a"} },
		"seed":              func(c *Config) { c.Gossip.Seeds = []string{"a"} },
		"name seeds":        func(c *Config) { c.Zone = "a" },
		"say decider":       func(c *Config) { c.Role, c.Gossip.Seeds = "king", []string{"a:1"} },
		"comma":             func(c *Config) { c.Zone, c.Gossip.Seeds = "a,b", []string{"a:1"} },
		"name this cluster": func(c *Config) { c.Cluster, c.Gossip.Seeds = "a b", []string{"a:1"} },
	} {
		c := config(t)
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
