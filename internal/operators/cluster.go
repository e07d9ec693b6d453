// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/admin"
	"github.com/headgate/headgate/ringpop"
)

// Cluster is what one decider knows of all members.
type Cluster struct {
	Host    string   `json:"host"` // the decider's address
	Members []Member `json:"members"`
}

// Member is one member of a Cluster.
type Member struct {
	Address string        `json:"address"`
	State   ringpop.State `json:"state"`
	Since   time.Time     `json:"since,omitzero"`
	Why     string        `json:"why,omitempty"`
	Labels  string        `json:"labels,omitempty"`
	Share   float64       `json:"share"` // of all keys
}

// Cluster returns what d's node knows of all members, sorted by address.
func (d *Desk) Cluster() Cluster {
	var standings []ringpop.Standing
	if d.standings != nil {
		standings = d.standings()
	} else if standings = d.node.Standings(); standings == nil {
		for _, h := range d.node.Ring().Hosts() {
			standings = append(standings, ringpop.Standing{Host: h, State: ringpop.Up})
		}
	}
	c := Cluster{Host: d.address, Members: []Member{}}
	shares := d.node.Ring().Shares()
	for _, s := range standings {
		c.Members = append(c.Members, Member{
			Address: s.Host.Address, State: s.State, Since: s.Since, Why: s.Why, Labels: s.Host.Labels, Share: shares[s.Host.Address],
		})
	}
	return c
}

// StatusOf says which limits are in force, and what was refused.
func StatusOf(limits *dynamicconfig.Live) admin.Config {
	current := limits.Current()
	c := admin.Config{
		Name: current.Name(), Version: current.Version(), Since: limits.Since(),
		Applied: limits.Applied(), Refused: limits.Rejected(), RefusedAt: limits.RejectedAt(),
	}
	for range current.Each() { // Rules would copy them
		c.Rules++
	}
	if err := limits.LastError(); err != nil {
		c.Error = err.Error()
	}
	return c
}
