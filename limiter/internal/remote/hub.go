// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"log/slog"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/background"
	"github.com/headgate/headgate/limiter/internal/backlog"
	"github.com/headgate/headgate/limiter/internal/budget"
	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Hub serves all Stages of one host: it bounds what they do together, and logs
// their failures. Use NewHub. All methods are safe for concurrent use.
type Hub struct {
	config   HubConfig
	running  background.Goroutines
	batches  background.Goroutines // of charges: those of single keys keep none of them waiting
	backlog  backlog.Backlog[*Stage]
	failures elsewhere.Failures
	asks     budget.Budget
}

// HubConfig is what a Hub works with.
type HubConfig struct {
	Log *slog.Logger

	// Charges are of the algorithms whose Remotes take charges of many keys at a time.
	Charges map[string]stage.Charges

	// Background runs f, instead of a goroutine; nil is one for each.
	Background func(f func())

	Failures tally.Counter // calls that brought no answer
	Skipped  tally.Counter // calls that were not made because too many were under way

	// RateRule is the rule that limits the rate of key now; nil if none does.
	RateRule func(key string) *dynamicconfig.Rule

	// Asking is the Stage of key now under an algorithm, by the name of its Terms; nil if there is none.
	Asking func(key, name string) *Stage

	// FallbackChanged is called when a key enters or leaves its fallback.
	FallbackChanged func(now stage.Instant, part *share.Base, entered bool)
}

// maxBackground bounds the calls in the background of a Hub, and maxBatches those with charges of many keys.
const (
	maxBackground = 256
	maxBatches    = 16
)

// NewHub returns a Hub with nothing under way.
func NewHub(c HubConfig) *Hub {
	return &Hub{config: c, running: background.New(maxBackground, c.Log), batches: background.New(maxBatches, c.Log), failures: elsewhere.Failures{Log: c.Log}}
}

// Links are those of h to the Remotes of algorithms, of which some have a Level.
func (h *Hub) Links(remotes map[string]stage.Remote, levels map[string]elsewhere.Level) map[string]*Link {
	links := make(map[string]*Link, len(remotes))
	for algorithm, remote := range remotes {
		links[algorithm] = &Link{remote, algorithm, h, levels[algorithm]}
	}
	return links
}

// asksPerHost is how many times per second a host asks owners beyond its grants,
// and hostAsksAtOnce how many times at once. Asks for one owner share messages.
const (
	asksPerHost    = 5000
	hostAsksAtOnce = 1000
)

// mayAsk reports whether the host may ask a Remote once more at now, for what a grant does not cover.
func (h *Hub) mayAsk(now stage.Instant) bool { return h.asks.Spend(now, asksPerHost, hostAsksAtOnce) }

// Background runs f, or returns false if too much is under way.
func (h *Hub) Background(f func()) bool { return h.run(h.running, f) }

// mayWait reports whether an ask may wait for what runs in the background. A simulator runs asks and what is in the background in turns, so that an
// ask which waits would wait for ever.
func (h *Hub) mayWait() bool { return h.config.Background == nil }

// run runs f, or returns false if as many run already as may.
func (h *Hub) run(among background.Goroutines, f func()) bool {
	if h.config.Background != nil {
		h.config.Background(f)
		return true
	}
	if among.Run(f) {
		return true
	}
	h.config.Skipped.Inc(1)
	return false
}

// remoteFailed counts and logs a call that brought no answer. first says that the one before was answered.
func (h *Hub) remoteFailed(r *share.Rate, err error, first bool) {
	h.config.Failures.Inc(1)
	t := r.Terms()
	h.failures.Failed(t.Rule.Shown(r.Key()), t.Algorithm, err, first)
}

// remoteAnswers logs that the remote answers again for a key, if it said before that it does not.
func (h *Hub) remoteAnswers(r *share.Rate) {
	t := r.Terms()
	h.failures.Answers(t.Rule.Shown(r.Key()), t.Algorithm)
}

// Join waits until no call goes on in the background.
func (h *Hub) Join() {
	h.batches.Join() // they may begin others
	h.running.Join()
}
