// SPDX-License-Identifier: Apache-2.0

// Package operators shows a node, and the cluster through it, to the people who operate it: an API
// and pages over HTTP, what has happened in the last hour, and what happens now.
//
// Make a Desk first, give its Answers and EdgeCounts to the node, Open it with the node, and then serve its
// Handler while Run runs:
//
//	desk := operators.New()
//	node, err := headgate.New(config, source, members, headgate.WithAnswers(desk.Answers()), headgate.WithEdgeCounts(desk.EdgeCounts()))
//	desk.Open(node, config.Address)
//	handler := desk.Handler(operators.Config{Policy: policy, Log: log})
//	go desk.Run(ctx)
//
// Out of scope: what decides about events, and who may reach the address. The parts below it guard
// their own state; a Desk is safe for concurrent use once it is open.
package operators

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/admin/api"
	"github.com/headgate/headgate/internal/admin/api/events"
	"github.com/headgate/headgate/internal/admin/api/keys"
	"github.com/headgate/headgate/internal/admin/ui"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/internal/recent"
	"github.com/headgate/headgate/internal/topkeys"
	"github.com/headgate/headgate/limiter/explain"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/rpc/questions"
)

// Desk is where operators find one node. Use New. It is safe for concurrent use once it is open.
type Desk struct {
	node      *headgate.Node
	address   string
	standings func() []ringpop.Standing
	recorder  *recent.Recorder
	programs  *programs
	forgets   bool           // the past is never asked for
	top       *topkeys.Watch // nil: it is never asked which keys matter
	counted   time.Time      // when count was called last; of Run's goroutine
	events    *events.Feed
	watched   watched
}

// Option says what a Desk is for.
type Option func(*Desk)

// WithTopKeys has the Desk find so many keys of each kind for TopKeys. Default none.
func WithTopKeys(keys int) Option {
	return func(d *Desk) { d.top = topkeys.New(keys) }
}

// WithoutPast has the Desk remember nothing of the past. It takes less memory.
func WithoutPast() Option {
	return func(d *Desk) { d.recorder, d.forgets = recent.New(0), true }
}

// New returns a Desk that is not open yet.
func New(options ...Option) *Desk {
	d := &Desk{recorder: recent.New(recent.DefaultSamples), programs: newPrograms(), events: events.New(time.Now)}
	for _, option := range options {
		option(d)
	}
	return d
}

// Answers are what the node answers other members. A node whose Desk does not Run remembers nothing.
func (d *Desk) Answers() questions.Answers {
	return questions.Answers{askSeries: d.series, askTotals: d.totals, askCompared: d.ownCompared, askBusy: d.busy, askPrograms: d.programSeries}
}

// EdgeCounts is for headgate.WithEdgeCounts: it counts what programs do at the node's edge. A Desk
// WithoutPast has none.
func (d *Desk) EdgeCounts() headgate.EdgeCounts {
	if d.forgets {
		return nil
	}
	return d.programs
}

// Open opens the Desk of node, whose address is that. Call it once, before node starts. standings
// reports of the members what node itself does not know; nil: node knows all.
func (d *Desk) Open(node *headgate.Node, address string, standings func() []ringpop.Standing) {
	d.node, d.address, d.standings = node, address, standings
	d.programs.limits = node.Limits().Current
}

// Config of a Handler.
type Config struct {
	// Store has the versions of the limits. Default none: the limits are in a file, and no one
	// changes them here.
	Store history.Store
	// Policy says who may see and change what. It is called often.
	Policy func() *callers.Policy
	// Log gets a line for each change, and for each refused one.
	Log *slog.Logger
}

// Handler answers operators: the API is at /v1/, the pages are everywhere else. Call it once.
func (d *Desk) Handler(c Config) http.Handler {
	limits, group := d.node.Limits(), d.node.Group()
	o := api.Options{
		Limits:    limits,
		Store:     c.Store,
		Operators: c.Policy,
		Status:    func() any { return StatusOf(limits) },
		Cluster:   func() any { return d.Cluster() },
		Keys: keys.Source{
			InUse:     group.Keys,
			OwnedKeys: d.node.OwnedKeys,
			Owned:     d.node.Owned,
			Counts:    group.Counts,
			Programs:  d.programs.each,
			Look: func(key string) explain.Key {
				return explain.Look(group, limits.Current(), d.node.Ring().Len(), key)
			},
			Explain: d.node.Explain,
			Trace:   d.node.Trace,
			Reset:   d.node.Reset,
		},
		Compare: d.compare,
		History: past{d},
		Busiest: past{d},
		Events:  d.events,
		Log:     c.Log,
	}
	limits.Subscribe(func(old, new *dynamicconfig.Snapshot) {
		var text []string
		for _, c := range dynamicconfig.Diff(old, new) {
			if text = append(text, c.String()); len(text) == mostChanges {
				text = append(text, "…")
				break
			}
		}
		if old.Version() == new.Version() { // the clock alone has changed it
			for _, o := range dynamicconfig.Ended(old, new) {
				text = append(text, o.Name()+" has ended: "+o.String())
			}
		}
		d.events.Add(events.Event{Kind: "limits-applied", Text: strings.Join(text, "\n")})
	})
	a := api.New(o)
	mux := http.NewServeMux()
	mux.Handle("/v1/", a)
	mux.Handle("/", ui.New(a, d.address))
	return mux
}

// mostChanges bounds the changes in the text of one event.
const mostChanges = 20

// Run remembers what happens, until ctx ends.
func (d *Desk) Run(ctx context.Context) {
	every(ctx, time.Second, func() {
		now := time.Now()
		d.count(now)
		d.programs.step(now)
		d.watched.look(d)
	})
}

// watched finds events by looking: limits that are refused, and members that change.
type watched struct {
	refused time.Time
	states  map[string]string // of members
}

// look adds what has happened since it was called last. It is called by one goroutine.
func (w *watched) look(d *Desk) {
	limits := d.node.Limits()
	if at := limits.RejectedAt(); !at.Equal(w.refused) {
		w.refused = at
		if err := limits.LastError(); err != nil {
			d.events.Add(events.Event{Kind: "limits-refused", Text: err.Error()})
		}
	}
	states := make(map[string]string)
	for _, m := range d.Cluster().Members {
		states[m.Address] = string(m.State)
		if was, known := w.states[m.Address]; w.states != nil && (!known || was != states[m.Address]) {
			text := fmt.Sprintf("%s is %s", m.Address, m.State)
			if m.Why != "" {
				text += ": " + m.Why
			}
			d.events.Add(events.Event{Kind: "member", Text: text})
		}
	}
	for address := range w.states {
		if _, still := states[address]; !still {
			d.events.Add(events.Event{Kind: "member", Text: address + " is no member any more"})
		}
	}
	w.states = states
}
