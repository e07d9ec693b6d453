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

	"github.com/headgate/headgate/internal/admin/api"
	"github.com/headgate/headgate/internal/largest"
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
	group := d.node.Group()
	b := busy{Keys: []api.TopCounts{}}
	now := w.Since.Add(api.TopPeriods * api.TopStep)
	var all []limiter.Count
	group.Counts(func(c limiter.Count) { all = append(all, c) })
	busiest := largest.New(min(w.Most, maxBusy), func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.rank[0], a.rank[0]), cmp.Compare(b.rank[1], a.rank[1]), strings.Compare(a.Key, b.Key))
	})
	for _, c := range all {
		allowed, rejected := d.recorder.Amount(c.Key, now.Add(-api.TopNow*api.TopStep), now)
		allowed, rejected = allowed/topNow, rejected/topNow
		b.Host.Keys++
		if c.Fallback {
			b.Host.Fallback++
		}
		b.Host.Allowed += allowed
		b.Host.Rejected += rejected
		// A private key is shown by each member in its own way: the asker looks again.
		if c.Rule.Shown(c.Key) == c.Key && !strings.Contains(c.Key, w.Like) {
			continue
		}
		if r := (ranked{c, rank(&c, w.Sort, allowed, rejected)}); busiest.Wants(r) {
			busiest.Add(r)
		}
	}
	for _, r := range busiest.Sorted() {
		c := api.TopCounts{Key: r.Key, Hosts: 1, Held: r.Held}
		if r.Fallback {
			c.Fallback = 1
		}
		c.Allowed, c.Rejected = d.periods(r.Key, w.Since)
		b.Keys = append(b.Keys, c)
	}
	return b, nil
}

// ranked is a key with its place among others.
type ranked struct {
	limiter.Count
	rank [2]float64
}

// topNow is of what time the rates of now are the mean, in s.
const topNow = float64(api.TopNow * api.TopStep / time.Second)

// rank is larger for a key that comes sooner: the second number counts among equals.
func rank(c *limiter.Count, sort string, allowed, rejected float64) [2]float64 {
	switch sort {
	case "rejected":
		return [2]float64{rejected, allowed}
	case "allowed":
		return [2]float64{allowed}
	case "utilization":
		if used := api.Utilization(c.Rule, allowed, c.Held); used != nil {
			return [2]float64{*used, allowed}
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
