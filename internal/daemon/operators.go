// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/admin/api"
	"github.com/headgate/headgate/internal/admin/ui"
	"github.com/headgate/headgate/limiter/explain"
)

// serveOperators adds the API and the pages of operators to the admin address, if there are any. Call it
// before that is served.
func (d *Daemon) serveOperators() {
	if d.access.staff == nil || d.metrics == nil {
		return
	}
	o := api.Options{
		Limits:    d.node.Limits(),
		Operators: d.access.staff.Current,
		Status:    func() any { return d.health().Config },
		Cluster:   func() any { return d.Cluster() },
		Keys:      d.node.Group().Keys,
		Look: func(key string) explain.Key {
			return explain.Look(d.node.Group(), d.node.Limits().Current(), d.node.Ring().Len(), key)
		},
		Explain: d.node.Explain,
		Trace:   d.node.Trace,
		Compare: d.compare,
		Reset:   d.node.Reset,
		History: d.past,
		Events:  api.NewEvents(time.Now),
		Log:     d.log.With("part", "operators"),
	}
	if d.limits != nil {
		o.Store = d.limits
	}
	d.node.Limits().Subscribe(func(old, new *dynamicconfig.Snapshot) {
		var text []string
		for _, c := range dynamicconfig.Diff(old, new) {
			if text = append(text, c.String()); len(text) == mostChanges {
				text = append(text, "…")
				break
			}
		}
		o.Events.Add(api.Event{Kind: "limits-applied", Text: strings.Join(text, "\n")})
	})
	d.access.follow(func(ctx context.Context) { every(ctx, time.Second, d.past.step) })
	w := &watched{d: d, events: o.Events}
	d.access.follow(func(ctx context.Context) { every(ctx, watchEvery, w.look) })
	a := api.New(o)
	d.metrics.handle("/v1/", a)
	d.metrics.handle("/", ui.New(a, d.address))
}

// mostChanges bounds the changes in the text of one event.
const mostChanges = 20

// watchEvery is how often the events are looked for that nothing tells of.
const watchEvery = time.Second

// watched finds events by looking: limits that are refused, and members that change.
type watched struct {
	d       *Daemon
	events  *api.Events
	refused time.Time
	states  map[string]string // of members
}

// look adds what has happened since it was called last. It is called by one goroutine.
func (w *watched) look() {
	limits := w.d.node.Limits()
	if at := limits.RejectedAt(); !at.Equal(w.refused) {
		w.refused = at
		if err := limits.LastError(); err != nil {
			w.events.Add(api.Event{Kind: "limits-refused", Text: err.Error()})
		}
	}
	states := make(map[string]string)
	for _, m := range w.d.Cluster().Members {
		states[m.Address] = string(m.State)
		if was, known := w.states[m.Address]; w.states != nil && (!known || was != states[m.Address]) {
			text := fmt.Sprintf("%s is %s", m.Address, m.State)
			if m.Why != "" {
				text += ": " + m.Why
			}
			w.events.Add(api.Event{Kind: "member", Text: text})
		}
	}
	for address := range w.states {
		if _, still := states[address]; !still {
			w.events.Add(api.Event{Kind: "member", Text: address + " is no member any more"})
		}
	}
	w.states = states
}
