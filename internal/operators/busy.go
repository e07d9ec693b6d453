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

	"github.com/headgate/headgate/internal/admin/api/busiest"
	"github.com/headgate/headgate/internal/largest"
	"github.com/headgate/headgate/internal/recent"
	"github.com/headgate/headgate/limiter"
)

// askBusy is the question which keys are used most now.
const askBusy = "busy"

// maxBusy is how many keys a member reports.
const maxBusy = 2100

// busy is what one member does, and what programs do at its edge.
type busy struct {
	Host     busiest.Member   `json:"host"`
	Programs atEdge           `json:"programs"`
	Keys     []busiest.Counts `json:"keys"`
}

// atEdge is what programs do at one member's edge, in tokens per second.
type atEdge struct {
	Keys    int     `json:"keys"`
	Allowed float64 `json:"allowed"`
	Offered float64 `json:"offered"`
}

// busy answers a member that asks which keys are used most now.
func (d *Desk) busy(_ context.Context, about []byte) (any, error) {
	var w busiest.Wanted
	if err := json.Unmarshal(about, &w); err != nil {
		return nil, err
	}
	b := busy{Keys: []busiest.Counts{}}
	now := w.Since.Add(busiest.Periods * busiest.Step)
	from := now.Add(-busiest.Now * busiest.Step)
	first := largest.New(min(w.Most, maxBusy), func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.rank[0], a.rank[0]), cmp.Compare(b.rank[1], a.rank[1]), strings.Compare(a.Key, b.Key))
	})
	programs := d.programs.names()
	b.Programs.Keys = len(programs)
	add := func(c *limiter.Count, here bool, allowed, rejected float64) {
		if _, too := programs[c.Key]; too {
			programs[c.Key] = here
			a, offered := d.programs.recorder.Amount(c.Key, from, now)
			b.Programs.Allowed += a / topNow
			b.Programs.Offered += offered / topNow
			allowed, rejected = allowed+a/topNow, rejected+max(offered-a, 0)/topNow
		}
		// A private key is shown by each member in its own way: the asker looks again.
		if !strings.Contains(c.Key, w.Like) && !c.Rule.Hides() {
			return
		}
		if r := (ranked{*c, here, rank(c, w.Sort, allowed, rejected)}); first.Wants(r) {
			first.Add(r)
		}
	}
	limits := d.node.Limits().Current()
	d.recorder.Amounts(from, now, func(of recent.Amounts) {
		var c limiter.Count // of one key after the other: each of its own would be on the heap
		d.node.Group().Counts(func(counted limiter.Count) {
			c = counted
			allowed, rejected := of(c.Key)
			allowed, rejected = allowed/topNow, rejected/topNow
			b.Host.Keys++
			b.Host.Allowed += allowed
			b.Host.Rejected += rejected
			if c.Fallback {
				b.Host.Fallback++
			}
			add(&c, true, allowed, rejected)
		})
		for name, here := range programs {
			if rule, ok := limits.Match(name); ok && !here {
				allowed, rejected := of(name)
				add(&limiter.Count{Key: name, Rule: rule}, false, allowed/topNow, rejected/topNow)
			}
		}
	})
	for _, r := range first.Sorted() {
		c := busiest.Counts{Key: r.Key, Held: r.Held}
		if r.here {
			c.Hosts = 1
		}
		if r.Fallback {
			c.Fallback = 1
		}
		c.Allowed, c.Rejected = periods(d.recorder, r.Key, w.Since)
		if _, too := programs[r.Key]; too {
			c.ProgramsAllowed, c.ProgramsOffered = periods(d.programs.recorder, r.Key, w.Since)
		}
		for _, o := range d.node.Owned(r.Key) {
			c.UsedBy = max(c.UsedBy, len(o.Hosts))
		}
		b.Keys = append(b.Keys, c)
	}
	return b, nil
}

// ranked is a key with its place among others.
type ranked struct {
	limiter.Count
	here bool // this member uses it itself
	rank [2]float64
}

// topNow is of what time the rates of now are the mean, in s.
const topNow = float64(busiest.Now * busiest.Step / time.Second)

// rank is larger for a key that comes sooner: the second number counts among equals.
func rank(c *limiter.Count, sort string, allowed, rejected float64) [2]float64 {
	switch sort {
	case "rejected":
		return [2]float64{rejected, allowed}
	case "allowed":
		return [2]float64{allowed}
	case "utilization":
		if used := busiest.Utilization(c.Rule, allowed, c.Held); used != nil {
			return [2]float64{*used, allowed}
		}
		return [2]float64{-1, allowed}
	}
	return [2]float64{} // by name
}

// periods is what happened to key since a time, in tokens; nil if nothing did.
func periods(r *recent.Recorder, key string, since time.Time) (allowed, rejected []float64) {
	for _, p := range r.Series(key, since) {
		at := (p.Second - since.Unix()) / int64(busiest.Step/time.Second)
		if at < 0 || at >= busiest.Periods {
			continue
		}
		if allowed == nil {
			allowed, rejected = make([]float64, busiest.Periods), make([]float64, busiest.Periods)
		}
		allowed[at] += p.Allowed
		rejected[at] += p.Reject
	}
	return allowed, rejected
}

var _ busiest.Source = past{}

// Busy implements busiest.Source.
func (p past) Busy(ctx context.Context, w busiest.Wanted) (keys []busiest.Counts, hosts []busiest.Member) {
	about, err := json.Marshal(w)
	if err != nil {
		return nil, nil
	}
	var mu sync.Mutex
	var programs atEdge
	places := make(map[string]int) // of keys
	p.node.AskAll(ctx, func(ctx context.Context, host string, ask func(context.Context, string, []byte, any) error) {
		var b busy
		if err := ask(ctx, askBusy, about, &b); err != nil {
			b = busy{Host: busiest.Member{Error: err.Error()}}
		}
		b.Host.Host = host
		mu.Lock()
		defer mu.Unlock()
		hosts = append(hosts, b.Host)
		programs.Keys = max(programs.Keys, b.Programs.Keys)
		programs.Allowed += b.Programs.Allowed
		programs.Offered += b.Programs.Offered
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
	slices.SortFunc(hosts, func(a, b busiest.Member) int { return cmp.Compare(a.Host, b.Host) })
	if programs.Keys > 0 {
		hosts = append(hosts, busiest.Member{
			Host: busiest.Programs, Keys: programs.Keys, Allowed: programs.Allowed, Rejected: max(programs.Offered-programs.Allowed, 0),
		})
	}
	for i := range keys {
		k := &keys[i]
		k.Hosts = max(k.Hosts, k.UsedBy)
		k.Allowed, k.Rejected = sum(k.Allowed, k.ProgramsAllowed), sum(k.Rejected, refused(k.ProgramsAllowed, k.ProgramsOffered))
	}
	return keys, hosts
}

// both is what two members did with one key.
func both(a, b busiest.Counts) busiest.Counts {
	a.Held, a.Hosts, a.Fallback, a.UsedBy = a.Held+b.Held, a.Hosts+b.Hosts, a.Fallback+b.Fallback, max(a.UsedBy, b.UsedBy)
	a.Allowed, a.Rejected = sum(a.Allowed, b.Allowed), sum(a.Rejected, b.Rejected)
	a.ProgramsAllowed, a.ProgramsOffered = sum(a.ProgramsAllowed, b.ProgramsAllowed), sum(a.ProgramsOffered, b.ProgramsOffered)
	return a
}

// sum adds b to a, by period. One without periods is nothing; of two that differ in length, a
// counts.
func sum(a, b []float64) []float64 {
	if len(a) == 0 {
		return b
	}
	if len(a) == len(b) {
		for i := range a {
			a[i] += b[i]
		}
	}
	return a
}
