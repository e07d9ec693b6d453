// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/admin/api"
	"github.com/headgate/headgate/internal/recent"
	"github.com/headgate/headgate/rpc/questions"
)

// The questions about the last hour.
const (
	askSeries = "series"
	askTotals = "totals"
)

// maxTotals is how many keys a member tells of.
const maxTotals = 20_000

// past is what d remembers of the last hour, and what asks the other members.
type past struct {
	d        *Daemon
	recorder *recent.Recorder
}

var _ api.History = past{}

// wanted is which part of a key's past is asked for.
type wanted struct {
	Key   string    `json:"key"`
	Since time.Time `json:"since"`
}

// most is the keys that a member has used most.
type most struct {
	Keys  []recent.Total `json:"keys"`
	Since time.Time      `json:"since"`
}

// answers are what d answers other members. A daemon without operators remembers nothing.
func (p past) answers() questions.Answers {
	return questions.Answers{
		askSeries: func(_ context.Context, about []byte) (any, error) {
			var w wanted
			if err := json.Unmarshal(about, &w); err != nil {
				return nil, err
			}
			return p.recorder.Series(w.Key, w.Since), nil
		},
		askTotals: func(context.Context, []byte) (any, error) {
			return most{p.recorder.Totals(maxTotals), p.recorder.Since()}, nil
		},
	}
}

// step remembers what has happened since the last one.
func (p past) step() { p.recorder.Step(time.Now(), p.d.node.Group().Counts) }

// Series implements api.History.
func (p past) Series(ctx context.Context, key string, since time.Time) (hosts map[string][]recent.Point, silent int) {
	about, err := json.Marshal(wanted{key, since})
	if err != nil {
		return nil, 0
	}
	var mu sync.Mutex
	hosts = make(map[string][]recent.Point)
	p.d.node.AskAll(func(host string, ask func(context.Context, string, []byte, any) error) {
		var points []recent.Point
		err := ask(ctx, askSeries, about, &points)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			silent++
			return
		}
		hosts[host] = points
	})
	return hosts, silent
}

// Totals implements api.History.
func (p past) Totals(ctx context.Context) (keys []recent.Total, since time.Time, silent int) {
	var mu sync.Mutex
	sums := make(map[string]recent.Total)
	p.d.node.AskAll(func(_ string, ask func(context.Context, string, []byte, any) error) {
		var m most
		err := ask(ctx, askTotals, nil, &m)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			silent++
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
