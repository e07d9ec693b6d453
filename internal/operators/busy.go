// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/admin/api"
	"github.com/headgate/headgate/limiter"
)

// askBusy is the question which keys are used most now.
const askBusy = "busy"

// maxBusy is how many keys a member tells of.
const maxBusy = 2100

// busy is what one member does.
type busy struct {
	Host api.TopHost     `json:"host"`
	Keys []api.TopCounts `json:"keys"`
}

// busy answers a member that asks which keys are used most now.
func (d *Desk) busy(_ context.Context, about []byte) (any, error) {
	var w api.TopWanted
	if err := json.Unmarshal(about, &w); err != nil {
		return nil, err
	}
	limits, group := d.node.Limits().Current(), d.node.Group()
	b := busy{Keys: []api.TopCounts{}}
	type ranked struct {
		api.TopCounts
		rank [2]float64
	}
	var all []ranked
	for _, key := range group.Keys() {
		status, live := group.Inspect(key)
		if !live {
			continue
		}
		c := api.TopCounts{Key: key, Hosts: 1}
		if len(status.Shares) > 0 && slices.ContainsFunc(status.Shares, func(s limiter.ShareStatus) bool { return s.Fallback }) {
			c.Fallback = 1
		}
		for _, s := range status.Shares {
			c.Held = max(c.Held, s.Held)
		}
		c.Allowed, c.Rejected = d.periods(key, w.Since)
		allowed, rejected := api.TopRate(c.Allowed), api.TopRate(c.Rejected)
		b.Host.Keys++
		b.Host.Fallback += c.Fallback
		b.Host.Allowed += allowed
		b.Host.Rejected += rejected
		// A private key is shown by each member in its own way: the asker looks again.
		if status.Key == key && !strings.Contains(key, w.Like) {
			continue
		}
		all = append(all, ranked{c, rank(limits, &c, w.Sort, allowed, rejected)})
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.rank[0], a.rank[0]), cmp.Compare(b.rank[1], a.rank[1]), strings.Compare(a.Key, b.Key))
	})
	for _, one := range all[:min(len(all), max(w.Most, 0), maxBusy)] {
		b.Keys = append(b.Keys, one.TopCounts)
	}
	return b, nil
}

// rank is larger for a key that comes sooner: the second number counts among equals.
func rank(limits *dynamicconfig.Snapshot, c *api.TopCounts, sort string, allowed, rejected float64) [2]float64 {
	switch sort {
	case "rejected":
		return [2]float64{rejected, allowed}
	case "allowed":
		return [2]float64{allowed}
	case "utilization":
		if rule, ok := limits.Match(c.Key); ok {
			if used := api.Utilization(rule, allowed, c.Held); used != nil {
				return [2]float64{*used, allowed}
			}
		}
		return [2]float64{-1, allowed}
	}
	return [2]float64{} // by name
}

// periods is what happened to key since a time, in tokens; nil if nothing did.
func (d *Desk) periods(key string, since time.Time) (allowed, rejected []float64) {
	for _, p := range d.recorder.Series(key, since) {
		at := (p.Second - since.Unix()) / int64(api.TopStep/time.Second)
		if at < 0 || at >= api.TopPeriods {
			continue
		}
		if allowed == nil {
			allowed, rejected = make([]float64, api.TopPeriods), make([]float64, api.TopPeriods)
		}
		allowed[at] += p.Allowed
		rejected[at] += p.Reject
	}
	return allowed, rejected
}

var _ api.Busiest = past{}

// Busy implements api.Busiest.
func (p past) Busy(ctx context.Context, w api.TopWanted) (keys []api.TopCounts, hosts []api.TopHost) {
	about, err := json.Marshal(w)
	if err != nil {
		return nil, nil
	}
	var mu sync.Mutex
	places := make(map[string]int) // of keys
	p.node.AskAll(func(host string, ask func(context.Context, string, []byte, any) error) {
		var b busy
		if err := ask(ctx, askBusy, about, &b); err != nil {
			b = busy{Host: api.TopHost{Error: err.Error()}}
		}
		b.Host.Host = host
		mu.Lock()
		defer mu.Unlock()
		hosts = append(hosts, b.Host)
		for _, c := range b.Keys {
			i, known := places[c.Key]
			if !known {
				places[c.Key] = len(keys)
				keys = append(keys, c)
				continue
			}
			keys[i] = both(keys[i], c)
		}
	})
	slices.SortFunc(hosts, func(a, b api.TopHost) int { return cmp.Compare(a.Host, b.Host) })
	return keys, hosts
}

// both is what two members did with one key.
func both(a, b api.TopCounts) api.TopCounts {
	a.Held, a.Hosts, a.Fallback = a.Held+b.Held, a.Hosts+b.Hosts, a.Fallback+b.Fallback
	if len(a.Allowed) != len(b.Allowed) || len(a.Rejected) != len(b.Rejected) {
		if len(a.Allowed) == 0 {
			a.Allowed, a.Rejected = b.Allowed, b.Rejected
		}
		return a
	}
	for i := range a.Allowed {
		a.Allowed[i] += b.Allowed[i]
	}
	for i := range a.Rejected {
		a.Rejected[i] += b.Rejected[i]
	}
	return a
}
