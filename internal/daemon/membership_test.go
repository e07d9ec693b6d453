// SPDX-License-Identifier: Apache-2.0

package daemon

import (
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
