// SPDX-License-Identifier: Apache-2.0

// Package busiest answers which keys are used most now, and what each member does. It does not
// count; it is given what the members have counted.
package busiest

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/daemon/callers"
)

// Source is what the members do now. It is asked by many goroutines.
type Source interface {
	// Busy returns the keys that come first in an order, over all members, and what each
	// member did. A member that has more than about w.Most keys leaves out the others.
	Busy(ctx context.Context, w Wanted) (keys []Counts, hosts []Member)
}

// Wanted is what Busy is asked for.
type Wanted struct {
	Since time.Time `json:"since"` // the last Periods begin
	Like  string    `json:"like"`  // what is shown of a key contains it
	Sort  string    `json:"sort"`  // one of those of /v1/top
	Most  int       `json:"most"`
}

// Counts is what happened to one key.
type Counts struct {
	Key      string    `json:"key"`
	Allowed  []float64 `json:"a,omitempty"` // in tokens, by period; none: nothing happened
	Rejected []float64 `json:"r,omitempty"`
	Held     int64     `json:"held,omitempty"` // slots
	Hosts    int       `json:"hosts"`          // which use the key
	Fallback int       `json:"fallback,omitempty"`

	// UsedBy is how many hosts report the key to its owner, programs among them. Only the
	// owner says it.
	UsedBy int `json:"used_by,omitempty"`

	// ProgramsAllowed and ProgramsOffered are what programs that report at the member's edge
	// were allowed and asked for. Both are part of Allowed and Rejected once the counts of
	// all members are one.
	ProgramsAllowed []float64 `json:"pa,omitempty"`
	ProgramsOffered []float64 `json:"po,omitempty"`
}

// Programs is the name of all programs together that listen nowhere and report at the members'
// edges, in a list of hosts.
const Programs = "programs"

// Member is what one member does, or what Programs do. Rates are in tokens per second, of the last ten seconds.
type Member struct {
	Host     string  `json:"host"`
	Keys     int     `json:"keys"`     // in use there
	Fallback int     `json:"fallback"` // of them, by their fallback
	Allowed  float64 `json:"allowed"`
	Rejected float64 `json:"rejected"`
	Error    string  `json:"error,omitempty"` // why it did not answer
}

// Top is what happens now, over all members.
type Top struct {
	At    time.Time `json:"at"`
	Step  int       `json:"step_seconds"` // the length of a period
	Keys  []Key     `json:"keys"`
	Total int       `json:"total"` // keys that are known of: more may be in use
	Hosts []Member  `json:"hosts"`
}

// Key is one key of a Top. Rates are in tokens per second, of the last ten seconds.
type Key struct {
	Key      string  `json:"key"` // as far as it is shown
	Rule     string  `json:"rule"`
	Limit    string  `json:"limit"` // of the cluster; empty without one, and "bypass" under a bypass
	Allowed  float64 `json:"allowed"`
	Rejected float64 `json:"rejected"`

	// Utilization is Allowed divided by the limit, or the slots that are held divided by
	// those that there are. Nil without a limit.
	Utilization *float64 `json:"utilization,omitempty"`

	Held     int64 `json:"held,omitempty"` // slots in flight
	Hosts    int   `json:"hosts"`          // which use the key
	Fallback int   `json:"fallback"`       // of them, by their fallback

	// RecentAllowed and RecentRejected are rates of the last minute, the oldest first.
	RecentAllowed  []float64 `json:"recent_allowed"`
	RecentRejected []float64 `json:"recent_rejected"`
}

const (
	// Step is the length of a period of a Top.
	Step = 2 * time.Second
	// Periods is how many periods a Top covers: the last minute.
	Periods = 30
	// Now is how many of the newest periods Allowed and Rejected are the mean of.
	Now = 5
)

// orders are those of Top: what comes first.
var orders = map[string]func(a, b *Key) int{
	"name":    func(_, _ *Key) int { return 0 },
	"allowed": func(a, b *Key) int { return cmp.Compare(b.Allowed, a.Allowed) },
	"rejected": func(a, b *Key) int {
		return cmp.Or(cmp.Compare(b.Rejected, a.Rejected), cmp.Compare(b.Allowed, a.Allowed))
	},
	"utilization": func(a, b *Key) int {
		return cmp.Or(cmp.Compare(b.used(), a.used()), cmp.Compare(b.Allowed, a.Allowed))
	},
}

func (k *Key) used() float64 {
	if k.Utilization == nil {
		return -1
	}
	return *k.Utilization
}

// Answers is the one about the busiest keys. It is safe for concurrent use.
type Answers struct {
	// Limits are those in force.
	Limits *dynamicconfig.Live

	// Source is what the members do now.
	Source Source
}

// Routes are what a answers.
func (a *Answers) Routes() map[string]reply.Handler {
	return map[string]reply.Handler{"GET /v1/top": a.top}
}

// top answers what happens now.
func (a *Answers) top(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	n, err := reply.Page(r, 100, 1000)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	sort := cmp.Or(q.Get("sort"), "rejected")
	order, known := orders[sort]
	if !known {
		return reply.Refuse(http.StatusBadRequest, "sort=%.20q: sort by %s", sort, strings.Join(slices.Sorted(maps.Keys(orders)), ", "))
	}
	ctx, cancel := context.WithTimeout(r.Context(), reply.MaxWait)
	defer cancel()
	now := time.Now().Truncate(time.Second) // the second of now is not over
	counts, hosts := a.Source.Busy(ctx, Wanted{Since: now.Add(-Periods * Step), Like: q.Get("like"), Sort: sort, Most: 2*n + 100})
	t := Top{At: now, Step: int(Step / time.Second), Keys: []Key{}, Hosts: hosts}
	limits := a.Limits.Current()
	for _, c := range counts {
		if !who.MaySee(c.Key) {
			continue
		}
		if k := keyOf(limits, &c); strings.Contains(k.Key, q.Get("like")) {
			t.Keys = append(t.Keys, k)
		}
	}
	slices.SortFunc(t.Keys, func(a, b Key) int { return cmp.Or(order(&a, &b), strings.Compare(a.Key, b.Key)) })
	t.Total = len(t.Keys)
	if q.Get("like") == "" {
		for _, h := range hosts {
			t.Total = max(t.Total, h.Keys)
		}
	}
	t.Keys = t.Keys[:min(n, len(t.Keys))]
	return reply.JSON(w, http.StatusOK, t)
}

// keyOf is what c says under limits.
func keyOf(limits *dynamicconfig.Snapshot, c *Counts) Key {
	k := Key{
		Key: limits.Shown(c.Key), Held: c.Held, Hosts: c.Hosts, Fallback: c.Fallback,
		Allowed: Rate(c.Allowed), Rejected: Rate(c.Rejected),
		RecentAllowed: make([]float64, len(c.Allowed)), RecentRejected: make([]float64, len(c.Rejected)),
	}
	for i, n := range c.Allowed {
		k.RecentAllowed[i] = n / Step.Seconds()
	}
	for i, n := range c.Rejected {
		k.RecentRejected[i] = n / Step.Seconds()
	}
	rule, ok := limits.Match(c.Key)
	if !ok {
		return k
	}
	k.Rule, k.Limit = rule.Key, rule.Amount()
	if rule.Bypassed() {
		k.Limit = "bypass"
	}
	k.Utilization = Utilization(rule, k.Allowed, c.Held)
	return k
}

// Rate is the rate now, in tokens per second, of tokens by period.
func Rate(tokens []float64) (sum float64) {
	for _, n := range tokens[max(0, len(tokens)-Now):] {
		sum += n
	}
	return sum / (Now * Step).Seconds()
}

// Utilization is which part of rule's limit is used by a rate, or by slots that are held;
// nil if there is no limit.
func Utilization(rule *dynamicconfig.Rule, rate float64, held int64) *float64 {
	limit := float64(rule.Limit)
	if limit <= 0 || math.IsInf(limit, 1) || rule.Bypassed() {
		return nil
	}
	if rule.InFlight {
		rate = float64(held)
	}
	part := rate / limit
	return &part
}
