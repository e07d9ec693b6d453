// SPDX-License-Identifier: Apache-2.0

package toptui

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/admin/api/busiest"
	"github.com/headgate/headgate/internal/operators"
)

// Source asks a decider. It is asked by several goroutines.
type Source interface {
	// Picture returns what happens now.
	Picture(ctx context.Context, q Query) (Picture, error)

	// Explain returns why a key is limited as it is, in lines for people.
	Explain(ctx context.Context, key string) (string, error)
}

// Query is which keys a Picture has.
type Query struct {
	Sort string // one of KeySorts
	Like string // what is shown of a key contains it
	Keys int    // at most
}

// KeySorts are the orders of keys, which the API knows.
var KeySorts = []string{"rejected", "allowed", "utilization", "name"}

// Picture is what one decider knows of its cluster at one time.
type Picture struct {
	At      time.Time     `json:"at"`
	Decider string        `json:"decider"`
	Total   int           `json:"total"` // keys that are known of: more may be in use
	Step    int           `json:"step_seconds"`
	Keys    []busiest.Key `json:"keys"`
	Hosts   []Host        `json:"hosts"`
}

// Host is one member of the cluster.
type Host struct {
	busiest.Member

	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	Why   string    `json:"why,omitempty"`
	Share float64   `json:"share"` // of all keys
}

// StatePrograms is the State of the Host that stands for all programs that listen nowhere.
const StatePrograms = "–"

// Join is what top and cluster say together.
func Join(top busiest.Top, cluster operators.Cluster) Picture {
	p := Picture{At: top.At, Decider: cluster.Host, Total: top.Total, Step: top.Step, Keys: top.Keys, Hosts: []Host{}}
	busy := make(map[string]busiest.Member)
	for _, h := range top.Hosts {
		busy[h.Host] = h
	}
	for _, m := range cluster.Members {
		h := Host{Member: busy[m.Address], State: string(m.State), Since: m.Since, Why: m.Why, Share: m.Share}
		if _, asked := busy[m.Address]; !asked {
			h.Error = "was not asked"
		}
		h.Host = m.Address
		p.Hosts = append(p.Hosts, h)
	}
	if programs, ok := busy[busiest.Programs]; ok { // all those together that listen nowhere
		p.Hosts = append(p.Hosts, Host{Member: programs, State: StatePrograms})
	}
	return p
}

// hostSorts are the orders of hosts.
var hostSorts = []string{"name", "rejected", "allowed", "share", "fallback"}

// keysOf are the keys of p that contain like, in an order.
func keysOf(p *Picture, sort, like string) []busiest.Key {
	var found []busiest.Key
	for _, k := range p.Keys {
		if strings.Contains(k.Key, like) {
			found = append(found, k)
		}
	}
	slices.SortStableFunc(found, func(a, b busiest.Key) int {
		first := 0
		switch sort {
		case "rejected":
			first = cmp.Or(cmp.Compare(b.Rejected, a.Rejected), cmp.Compare(b.Allowed, a.Allowed))
		case "allowed":
			first = cmp.Compare(b.Allowed, a.Allowed)
		case "utilization":
			first = cmp.Or(cmp.Compare(part(b.Utilization), part(a.Utilization)), cmp.Compare(b.Allowed, a.Allowed))
		}
		return cmp.Or(first, strings.Compare(a.Key, b.Key))
	})
	return found
}

// part is v, or less than any part.
func part(v *float64) float64 {
	if v == nil {
		return -1
	}
	return *v
}

// hostsOf are the hosts of p that contain like, in an order.
func hostsOf(p *Picture, sort, like string) []Host {
	var found []Host
	for _, h := range p.Hosts {
		if strings.Contains(h.Host, like) {
			found = append(found, h)
		}
	}
	slices.SortStableFunc(found, func(a, b Host) int {
		first := 0
		switch sort {
		case "rejected":
			first = cmp.Compare(b.Rejected, a.Rejected)
		case "allowed":
			first = cmp.Compare(b.Allowed, a.Allowed)
		case "share":
			first = cmp.Compare(b.Share, a.Share)
		case "fallback":
			first = cmp.Compare(b.Fallback, a.Fallback)
		}
		return cmp.Or(first, strings.Compare(a.Host, b.Host))
	})
	return found
}
