// SPDX-License-Identifier: Apache-2.0

// Package migrate says how the old and the new limiter of rules that change their
// algorithm compare, and takes such rules from mode to mode. It does not count; it is given
// what the members have counted.
package migrate

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/edit"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/admin/api/versions"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/limiter/stage"
)

// Compared is how the old and the new limiter of one key answered at one member, or at
// several.
type Compared struct {
	stage.Divergence

	Key  string `json:"key"`  // what is shown of it; empty for all keys together that are not in use any more
	Rule string `json:"rule"` // its pattern
	Host string `json:"host,omitempty"`
}

// Migration is a rule that changes its algorithm, and what is known of the two.
type Migration struct {
	Rule string `json:"rule"`
	From string `json:"from"`
	To   string `json:"to"`
	Mode string `json:"mode"`

	// Next and Back are the modes after and before Mode; empty if there is none.
	Next string `json:"next,omitempty"`
	Back string `json:"back,omitempty"`

	// Both, OnlyOld, OnlyNew and Neither count, in tokens or slots, what the old and the new limiter
	// would have allowed, over all members, in this Mode alone.
	Both    int64 `json:"both"`
	OnlyOld int64 `json:"only_old"`
	OnlyNew int64 `json:"only_new"`
	Neither int64 `json:"neither"`

	// Verdict is advance, wait or back, and Because says why.
	Verdict string `json:"verdict"`
	Because string `json:"because"`

	// Keys are those that differ most, each at one member, and More is how many there are beside them.
	Keys []Compared `json:"keys"`
	More int        `json:"more"`
}

// The verdicts.
const (
	Advance = "advance"
	Wait    = "wait"
	GoBack  = "back"
)

// What it takes to advance: so many tokens compared, of which at most a part differs. More
// than another part says that the new algorithm is not what is wanted.
const (
	enoughCompared = 1000
	fewDiffer      = 0.01
	manyDiffer     = 0.05
)

// mostDiffering bounds the keys of a Migration.
const mostDiffering = 20

// Answers are those about migrations. It is safe for concurrent use.
type Answers struct {
	// Limits are those in force.
	Limits *dynamicconfig.Live

	// Compare returns how old and new limiters of keys under migration answered, by key and
	// member, and how many members do not answer.
	Compare func(ctx context.Context) (rows []Compared, silent []string)

	// Versions makes new versions of the limits.
	Versions *versions.Answers
}

// Routes are what a answers.
func (a *Answers) Routes() map[string]reply.Handler {
	return map[string]reply.Handler{
		"GET /v1/migrations":       a.migrations,
		"POST /v1/migrations/step": a.step,
	}
}

// Report is about all rules that change their algorithm.
type Report struct {
	Migrations []Migration `json:"migrations"`

	reply.Silence
}

// migrations answers the rules that change their algorithm.
func (a *Answers) migrations(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	ctx, cancel := context.WithTimeout(r.Context(), reply.MaxWait)
	defer cancel()
	compared, silent := a.Compare(ctx)
	all := []Migration{}
	for rule := range a.Limits.Current().Each() {
		if rule.Migration != nil && who.MaySee(rule.Key) {
			all = append(all, migration(rule, compared, who.MaySee))
		}
	}
	return reply.JSON(w, http.StatusOK, Report{all, reply.SilenceOf(silent)})
}

// migration is what compared says of rule, with the keys that may be seen.
func migration(rule *dynamicconfig.Rule, compared []Compared, maySee func(key string) bool) Migration {
	m := Migration{Rule: rule.Key, From: rule.Migration.From, To: rule.Migration.To, Mode: rule.Migration.Mode.String()}
	if mode := rule.Migration.Mode; mode < dynamicconfig.ModeNew {
		m.Next = (mode + 1).String()
	}
	if mode := rule.Migration.Mode; mode > dynamicconfig.ModeOld {
		m.Back = (mode - 1).String()
	}
	more := make(map[string]int64) // by how much more the new one admits of each key
	for _, c := range compared {
		if c.Rule != rule.Key {
			continue
		}
		m.Both, m.OnlyOld, m.OnlyNew, m.Neither = m.Both+c.Both, m.OnlyOld+c.OnlyOld, m.OnlyNew+c.OnlyNew, m.Neither+c.Neither
		more[c.Key] += c.OnlyNew - c.OnlyOld
		if c.Key != "" && c.OnlyOld+c.OnlyNew > 0 && maySee(c.Key) {
			m.Keys = append(m.Keys, c)
		}
	}
	slices.SortFunc(m.Keys, func(a, b Compared) int {
		return cmp.Or(cmp.Compare(b.OnlyOld+b.OnlyNew, a.OnlyOld+a.OnlyNew), strings.Compare(a.Key, b.Key), strings.Compare(a.Host, b.Host))
	})
	shown := min(len(m.Keys), mostDiffering)
	m.Keys, m.More = append([]Compared{}, m.Keys[:shown]...), len(m.Keys)-shown
	var moved, lost int64
	for _, n := range more {
		moved, lost = moved+max(n, -n), lost+max(-n, 0)
	}
	m.judge(rule, moved, lost)
	return m
}

// judge sets the verdict. moved is by how much more or less the new algorithm admits of each
// key, and lost by how much less alone, both summed over keys. Those that are not in use any more are one.
func (m *Migration) judge(rule *dynamicconfig.Rule, moved, lost int64) {
	mode, unit := rule.Migration.Mode, "tokens"
	if rule.InFlight {
		unit = "slots"
	}
	total := m.Both + m.OnlyOld + m.OnlyNew + m.Neither
	differ, part := 0.0, 0.0
	if total > 0 {
		differ, part = float64(m.OnlyOld+m.OnlyNew)/float64(total), float64(moved)/float64(total)
	}
	how := fmt.Sprintf("%.2f%% of %d %s were answered differently: %s would reject %d that %s allows, and allow %d that %[6]s rejects",
		100*differ, total, unit, m.To, m.OnlyOld, m.From, m.OnlyNew)
	switch {
	case mode == dynamicconfig.ModeDisabled:
		m.Verdict, m.Because = Wait, "the mode `disabled` lets everything pass, and compares nothing: go on to `old`"
	case mode == dynamicconfig.ModeOld:
		m.Verdict, m.Because = Advance, m.From+" decides alone, and nothing is compared: the next mode compares, and changes no answer"
	case mode == dynamicconfig.ModeNew:
		m.Verdict, m.Because = Advance, m.To+" decides alone: write `algorithm: "+m.To+"` in place of `migrate`"
	case total < enoughCompared:
		m.Verdict, m.Because = Wait, fmt.Sprintf("only %d %s were compared in this mode so far, and %d are enough", total, unit, enoughCompared)
	case differ > manyDiffer && part <= fewDiffer:
		// Of a key over its limit, two algorithms refuse different events.
		m.Verdict, m.Because = Wait, how+": but both admit about as much of each key. Look at the keys that differ; if they are over their limits, go on in spite of this"
	case differ > fewDiffer && float64(m.OnlyOld) <= fewDiffer*float64(total) && holds(m.To):
		m.Verdict, m.Because = Advance, how+": it takes next to nothing away, and its hosts together keep to the same limit"
	case differ > manyDiffer && float64(lost) <= fewDiffer*float64(total) && holds(m.To):
		m.Verdict, m.Because = Wait, how+fmt.Sprintf(": other events, but no less of any key, and %s keeps to the same limit. Look at the keys that differ; if they are over their limits, go on in spite of this", m.To)
	case differ > manyDiffer && holds(m.To):
		m.Verdict, m.Because = GoBack, how+fmt.Sprintf(": of some keys, %s admits less than %s does", m.To, m.From)
	case differ > manyDiffer:
		m.Verdict, m.Because = GoBack, how+fmt.Sprintf(": under %s, hosts may together admit more than the limit, or less than %s does", m.To, m.From)
	case differ > fewDiffer:
		m.Verdict, m.Because = Wait, how+": look at the keys that differ"
	default:
		m.Verdict, m.Because = Advance, how
	}
}

// holds reports whether all hosts together keep to the limit under an algorithm, whatever each of
// them is asked for. Of an algorithm of the service's own that is not known.
func holds(algorithm string) bool {
	switch algorithm {
	case "none", "static", "gossip":
		return false
	}
	_, known := dynamicconfig.TraitsOf(algorithm)
	return known
}

// step takes a rule that changes its algorithm to another mode.
func (a *Answers) step(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	q := r.URL.Query()
	key, message := q.Get("rule"), q.Get("message")
	mode, err := rule.ParseMode(q.Get("mode"))
	if err != nil {
		return reply.Refuse(http.StatusBadRequest, "mode: %v", err)
	}
	if message == "" {
		message = fmt.Sprintf("%s: migrate to mode %s", key, mode)
	}
	return a.Versions.Change(w, r, who, message, func(v history.Version) (string, error) {
		s, err := v.Parse()
		if err != nil {
			return "", reply.Refuse(http.StatusConflict, "%s cannot be used", v.Name())
		}
		for rule := range s.Each() {
			if rule.Key == key && rule.Migration != nil {
				return versions.Edited(edit.Set(v.Text, key, edit.Field{Name: "migrate", Value: fmt.Sprintf("{from: %s, to: %s, mode: %s}", rule.Migration.From, rule.Migration.To, mode)}))
			}
		}
		return "", reply.Refuse(http.StatusNotFound, "no rule %.100q changes its algorithm", key)
	})
}
