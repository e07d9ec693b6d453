// SPDX-License-Identifier: Apache-2.0

package api

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
	"github.com/headgate/headgate/internal/daemon/callers"
)

// Busiest is what the members do now. It is asked by many goroutines.
type Busiest interface {
	// Busy returns the keys that come first in an order, over all members, and what each
	// member did. A member that has more than about w.Most keys leaves out the others.
	Busy(ctx context.Context, w TopWanted) (keys []TopCounts, hosts []TopHost)
}

// TopWanted is what Busy is asked for.
type TopWanted struct {
	Since time.Time `json:"since"` // the last TopPeriods begin
	Like  string    `json:"like"`  // what is shown of a key contains it
	Sort  string    `json:"sort"`  // one of those of /v1/top
	Most  int       `json:"most"`
}

// TopCounts is what happened to one key.
type TopCounts struct {
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

// TopHost is what one member does, or what Programs do. Rates are in tokens per second, of the last ten seconds.
type TopHost struct {
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
	Keys  []TopKey  `json:"keys"`
	Total int       `json:"total"` // keys that are known of: more may be in use
	Hosts []TopHost `json:"hosts"`
}

// TopKey is one key of a Top. Rates are in tokens per second, of the last ten seconds.
type TopKey struct {
	Key      string  `json:"key"` // as far as it is shown
	Rule     string  `json:"rule"`
	Limit    string  `json:"limit"` // of the cluster; empty without one
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
	// TopStep is the length of a period of a Top.
	TopStep = 2 * time.Second
	// TopPeriods is how many periods a Top tells of: the last minute.
	TopPeriods = 30
	// TopNow is how many of the newest periods Allowed and Rejected are the mean of.
	TopNow = 5
)

// topOrders are those of Top: what comes first.
var topOrders = map[string]func(a, b *TopKey) int{
	"name":    func(_, _ *TopKey) int { return 0 },
	"allowed": func(a, b *TopKey) int { return cmp.Compare(b.Allowed, a.Allowed) },
	"rejected": func(a, b *TopKey) int {
		return cmp.Or(cmp.Compare(b.Rejected, a.Rejected), cmp.Compare(b.Allowed, a.Allowed))
	},
	"utilization": func(a, b *TopKey) int {
		return cmp.Or(cmp.Compare(b.used(), a.used()), cmp.Compare(b.Allowed, a.Allowed))
	},
}

func (k *TopKey) used() float64 {
	if k.Utilization == nil {
		return -1
	}
	return *k.Utilization
}

// top answers what happens now.
func (a *API) top(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	n, err := page(r, 100, 1000)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	sort := cmp.Or(q.Get("sort"), "rejected")
	order, known := topOrders[sort]
	if !known {
		return refuse(http.StatusBadRequest, "sort=%.20q: sort by %s", sort, strings.Join(slices.Sorted(maps.Keys(topOrders)), ", "))
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxAnswer)
	defer cancel()
	now := time.Now().Truncate(time.Second) // the second of now is not over
	counts, hosts := a.Busiest.Busy(ctx, TopWanted{Since: now.Add(-TopPeriods * TopStep), Like: q.Get("like"), Sort: sort, Most: 2*n + 100})
	t := Top{At: now, Step: int(TopStep / time.Second), Keys: []TopKey{}, Hosts: hosts}
	limits := a.Limits.Current()
	for _, c := range counts {
		if !who.MaySee(c.Key) {
			continue
		}
		if k := topKey(limits, &c); strings.Contains(k.Key, q.Get("like")) {
			t.Keys = append(t.Keys, k)
		}
	}
	slices.SortFunc(t.Keys, func(a, b TopKey) int { return cmp.Or(order(&a, &b), strings.Compare(a.Key, b.Key)) })
	t.Total = len(t.Keys)
	if q.Get("like") == "" {
		for _, h := range hosts {
			t.Total = max(t.Total, h.Keys)
		}
	}
	t.Keys = t.Keys[:min(n, len(t.Keys))]
	return send(w, http.StatusOK, t)
}

// topKey is what c says under limits.
func topKey(limits *dynamicconfig.Snapshot, c *TopCounts) TopKey {
	k := TopKey{
		Key: limits.Shown(c.Key), Held: c.Held, Hosts: c.Hosts, Fallback: c.Fallback,
		Allowed: TopRate(c.Allowed), Rejected: TopRate(c.Rejected),
		RecentAllowed: make([]float64, len(c.Allowed)), RecentRejected: make([]float64, len(c.Rejected)),
	}
	for i, n := range c.Allowed {
		k.RecentAllowed[i] = n / TopStep.Seconds()
	}
	for i, n := range c.Rejected {
		k.RecentRejected[i] = n / TopStep.Seconds()
	}
	rule, ok := limits.Match(c.Key)
	if !ok {
		return k
	}
	k.Rule, k.Limit = rule.Key, rule.Amount()
	k.Utilization = Utilization(rule, k.Allowed, c.Held)
	return k
}

// TopRate is the rate now, in tokens per second, of tokens by period.
func TopRate(tokens []float64) (sum float64) {
	for _, n := range tokens[max(0, len(tokens)-TopNow):] {
		sum += n
	}
	return sum / (TopNow * TopStep).Seconds()
}

// Utilization is which part of rule's limit is used by a rate, or by slots that are held;
// nil if there is no limit.
func Utilization(rule *dynamicconfig.Rule, rate float64, held int64) *float64 {
	limit := float64(rule.Limit)
	if limit <= 0 || math.IsInf(limit, 1) {
		return nil
	}
	if rule.InFlight {
		rate = float64(held)
	}
	part := rate / limit
	return &part
}
