// SPDX-License-Identifier: Apache-2.0

package lasthour

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/admin/api/access"
	"github.com/headgate/headgate/internal/admin/api/events"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/internal/printable"
	"github.com/headgate/headgate/internal/recent"
	"github.com/headgate/headgate/limiter/explain"
)

// Then is why a key was limited as it was at a time of the last hour, as far as the members
// remember.
type Then struct {
	Key string `json:"key"`

	// From and Until are the seconds about that time that the figures are of: ten of the last
	// five minutes, and up to thirty before, of which members remember every ten as one.
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`

	// Because says in a sentence what happened.
	Because string `json:"because"`

	// Rule is the rule that limited the key then, its fields by name; empty if none matched.
	// Version is the version of the limits that has it. It is 0 if the limits have no versions:
	// then Rule is the one of now; and before the oldest version: then Rule is empty.
	Rule    map[string]any `json:"rule"`
	Version int64          `json:"version"`

	// Hosts is what each member that answers did with the key then.
	Hosts []HostThen `json:"hosts"`

	// Events are what happened at this daemon from a minute before until then.
	Events []events.Event `json:"events"`

	reply.Silence
}

// HostThen is what one member did with a key.
type HostThen struct {
	HostUsage

	// Decisions are those of that time, the oldest first, of a key that is traced and of which
	// the member has not made too many since.
	Decisions []explain.Decision `json:"decisions"`
}

// How much around a time is looked at.
const (
	aroundThen   = 5 * time.Second  // before and after
	fineThen     = 5 * time.Minute  // for so long, members remember each second
	coarseThen   = 10 * time.Second // and then as many seconds as one
	eventsBefore = time.Minute
)

// then answers why a key was limited as it was.
func (a *Answers) then(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	key, err := access.Key(r, who)
	if err != nil {
		return err
	}
	now := time.Now()
	at, err := time.Parse(time.RFC3339, r.URL.Query().Get("at"))
	if err != nil || at.After(now) || at.Before(now.Add(-recent.Hour)) {
		return reply.Refuse(http.StatusBadRequest, "at=%.40q: write a time of the last hour, as in %s", r.URL.Query().Get("at"), now.Add(-time.Minute).UTC().Format(time.RFC3339))
	}
	ctx, cancel := context.WithTimeout(r.Context(), reply.MaxWait)
	defer cancel()

	t := Then{Key: key, From: at.Add(-aroundThen).UTC(), Until: at.Add(aroundThen).UTC(), Hosts: []HostThen{}, Events: []events.Event{}, Rule: map[string]any{}}
	if now.Sub(t.From) > fineThen {
		t.From, t.Until = at.Add(-coarseThen).Truncate(coarseThen).UTC(), at.Add(2*coarseThen).Truncate(coarseThen).UTC()
	}
	limits, err := a.limitsAt(ctx, &t, at)
	if err != nil {
		return err
	}
	t.Key = limits.Shown(key)
	rule, ok := limits.Match(key)
	if ok {
		t.Rule = maps.Collect(rule.Fields())
	}
	a.hostsThen(ctx, &t, key)
	past, _ := a.Events.Since(0)
	for _, e := range past {
		if !e.Time.Before(t.From.Add(-eventsBefore)) && e.Time.Before(t.Until) {
			t.Events = append(t.Events, e)
		}
	}
	t.because(limits, rule, a.Store == nil, min(t.Until.Sub(t.From), now.Sub(t.From)))
	return reply.JSON(w, http.StatusOK, t)
}

// limitsAt are the limits in force at a time, overrides included.
func (a *Answers) limitsAt(ctx context.Context, t *Then, at time.Time) (*dynamicconfig.Snapshot, error) {
	if a.Store == nil {
		return a.Limits.Current().At(at), nil
	}
	for before := int64(0); ; {
		versions, err := a.Store.List(ctx, before, 100)
		if err != nil && !errors.Is(err, history.ErrEmpty) {
			return nil, err
		}
		for _, v := range versions {
			if v.Time.After(at) {
				continue
			}
			whole, err := a.Store.Get(ctx, v.Number)
			if err != nil {
				return nil, err
			}
			s, err := whole.Parse()
			if err != nil {
				return nil, fmt.Errorf("version %d, which was the newest then, cannot be read by this release: %w", v.Number, err)
			}
			t.Version = v.Number
			return s.At(at), nil
		}
		if len(versions) == 0 { // before the first version, or all of them are younger
			return history.Version{Text: "limits: []"}.Parse()
		}
		before = versions[len(versions)-1].Number
	}
}

// hostsThen asks all members what they did.
func (a *Answers) hostsThen(ctx context.Context, t *Then, key string) {
	var now explain.Explanation
	var asked sync.WaitGroup // at the same time: a member that hangs uses up all of ctx
	asked.Go(func() { now = a.Explain(ctx, key) })
	series, silent := a.History.Series(ctx, Wanted{Key: key, Since: t.From})
	asked.Wait()
	t.Silence = reply.SilenceOf(silent)
	decisions := make(map[string][]explain.Decision)
	for _, h := range now.Hosts {
		decisions[h.Host] = slices.DeleteFunc(h.Decisions, func(d explain.Decision) bool { return d.Time.Before(t.From) || !d.Time.Before(t.Until) })
	}
	for host, points := range series {
		h := HostThen{HostUsage: HostUsage{Host: host}, Decisions: append([]explain.Decision{}, decisions[host]...)}
		for _, p := range points {
			if p.Second < t.Until.Unix() {
				h.Allowed, h.Rejected = h.Allowed+p.Allowed, h.Rejected+p.Reject
			}
		}
		t.Hosts = append(t.Hosts, h)
	}
	slices.SortFunc(t.Hosts, func(a, b HostThen) int { return strings.Compare(a.Host, b.Host) })
}

// because says what happened in a period of some length. file: the limits have no versions.
func (t *Then) because(limits *dynamicconfig.Snapshot, rule *dynamicconfig.Rule, file bool, length time.Duration) {
	var allowed, rejected float64
	using := 0
	for _, h := range t.Hosts {
		allowed, rejected = allowed+h.Allowed, rejected+h.Rejected
		if h.Allowed+h.Rejected > 0 {
			using++
		}
	}
	per := func(n float64) string { return printable.Number(n/length.Seconds(), 3) + "/s" }
	var say []string
	add := func(format string, args ...any) { say = append(say, fmt.Sprintf(format, args...)) }
	switch {
	case t.Version == 0 && !file:
		add("the database had no limits yet, or its version of that time was pruned, so which rule limited the key is not known")
	case rule != nil:
		add("the rule %q limited the key to %s", rule.Key, rule.Amount())
		if rule.Override != nil {
			add("overridden: %s", rule.Override)
		}
	case limits.Unmatched() == dynamicconfig.UnmatchedDeny:
		add("no rule matched the key, and `unmatched: deny` refused everything")
	default:
		add("no rule matched the key, and `unmatched: allow` allowed everything")
	}
	switch {
	case using == 0:
		add("no member remembers that the key was used then")
	case rejected == 0:
		add("%d of %s allowed %s together, and rejected nothing", using, printable.Count(len(t.Hosts), "member", "members"), per(allowed))
	default:
		add("%d of %s allowed %s and rejected %s together", using, printable.Count(len(t.Hosts), "member", "members"), per(allowed), per(rejected))
		t.full(rule, allowed/length.Seconds(), add)
	}
	if file {
		add("the limits are in a file, so the rule is the one of now")
	}
	if n := len(t.Events); n > 0 {
		add("%s before and meanwhile", printable.Count(n, "event", "events"))
	}
	if t.Silent > 0 {
		add("%s", t.Silence)
	}
	t.Because = strings.Join(say, "; ")
}

// full says whether a limit was used up that allowed so many tokens per second, and where most
// of what it rejected came from.
func (t *Then) full(rule *dynamicconfig.Rule, allowed float64, add func(format string, args ...any)) {
	if rule == nil || rule.InFlight || rule.Limit <= 0 {
		return
	}
	used := allowed / float64(rule.Limit)
	if used >= 0.95 {
		add("the limit was used up: so much more was asked for than it allows")
		return
	}
	most := slices.MaxFunc(t.Hosts, func(a, b HostThen) int { return cmp.Compare(a.Rejected, b.Rejected) })
	add("%.0f%% of the limit were used in these seconds: %s rejected most, because its burst was used up, or its part of the limit was smaller than what it was asked for", 100*used, most.Host)
}
