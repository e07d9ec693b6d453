// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/admin/api/busiest"
	"github.com/headgate/headgate/internal/admin/api/lasthour"
	"github.com/headgate/headgate/internal/recent"
)

// The questions about the last hour.
const (
	askSeries = "series"
	askTotals = "totals"

	askPrograms = "series-programs" // of what programs did at the member's edge
)

// maxTotals is how many keys a member reports.
const maxTotals = 20_000

// most is the keys that a member has used most.
type most struct {
	Keys  []recent.Total `json:"keys"`
	Since time.Time      `json:"since"`
}

// series answers a member that asks for a key's past.
func (d *Desk) series(_ context.Context, about []byte) (any, error) {
	return d.seriesOf(d.recorder, about)
}

// programSeries answers a member that asks what programs did with a key. Reject of a point is what
// was offered.
func (d *Desk) programSeries(_ context.Context, about []byte) (any, error) {
	return d.seriesOf(d.programs.recorder, about)
}

// settled is how long after a change of limits a member begins to count for the limits after it:
// what is remembered of a second may have happened in the second before.
const settled = 2 * time.Second

// seriesOf returns what r remembers of what is asked for.
func (d *Desk) seriesOf(r *recent.Recorder, about []byte) ([]recent.Point, error) {
	var w lasthour.Wanted
	if err := json.Unmarshal(about, &w); err != nil {
		return nil, err
	}
	if w.Limits != "" {
		limits := d.node.Limits()
		if limits.Current().Name() != w.Limits {
			return nil, nil
		}
		if from := limits.Since().Add(settled); w.Since.Before(from) {
			w.Since = from
		}
	}
	return r.Series(w.Key, w.Since), nil
}

// totals answers a member that asks which keys are used most.
func (d *Desk) totals(context.Context, []byte) (any, error) {
	sums := make(map[string]recent.Total)
	for _, t := range d.recorder.Totals(maxTotals) {
		sums[t.Key] = t
	}
	for _, t := range d.programs.recorder.Totals(maxTotals) {
		s := sums[t.Key]
		sums[t.Key] = recent.Total{Key: t.Key, Allowed: s.Allowed + t.Allowed, Rejected: s.Rejected + max(t.Rejected-t.Allowed, 0)}
	}
	return most{recent.Largest(sums, maxTotals), d.recorder.Since()}, nil
}

// past is the last hour of all members.
type past struct{ *Desk }

var _ lasthour.History = past{}

// Series implements lasthour.History.
func (p past) Series(ctx context.Context, w lasthour.Wanted) (hosts map[string][]recent.Point, silent []string) {
	about, err := json.Marshal(w)
	if err != nil {
		return nil, nil
	}
	var mu sync.Mutex
	hosts = make(map[string][]recent.Point)
	var programs [][]recent.Point // by edge
	p.node.AskAll(ctx, func(ctx context.Context, host string, ask func(context.Context, string, []byte, any) error) {
		if slices.Contains(w.Without, host) {
			return
		}
		var points, atEdge []recent.Point
		err := ask(ctx, askSeries, about, &points)
		if err == nil && ask(ctx, askPrograms, about, &atEdge) != nil {
			atEdge = nil // the member is of an earlier release
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			silent = append(silent, host)
			return
		}
		hosts[host] = points
		programs = append(programs, atEdge)
	})
	if points := refusedOf(recent.Sum(programs...)); len(points) > 0 {
		hosts[busiest.Programs] = points
	}
	return hosts, silent
}

// Totals implements lasthour.History.
func (p past) Totals(ctx context.Context) (keys []recent.Total, since time.Time, silent []string) {
	var mu sync.Mutex
	sums := make(map[string]recent.Total)
	p.node.AskAll(ctx, func(ctx context.Context, host string, ask func(context.Context, string, []byte, any) error) {
		var m most
		err := ask(ctx, askTotals, nil, &m)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			silent = append(silent, host)
			return
		}
		if since.IsZero() || m.Since.After(since) {
			since = m.Since
		}
		for _, t := range m.Keys {
			s := sums[t.Key]
			sums[t.Key] = recent.Total{Key: t.Key, Allowed: s.Allowed + t.Allowed, Rejected: s.Rejected + t.Rejected}
		}
	})
	return recent.Largest(sums, maxTotals), since, silent
}
