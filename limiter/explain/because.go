// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	rules "github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/printable"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/exact"
)

// overridden says what holds for rule instead of what the config file says, in brackets;
// empty if nothing does.
func overridden(rule *dynamicconfig.Rule) string {
	if rule.Override == nil {
		return ""
	}
	return " (overridden: " + rule.Override.String() + ")"
}

// because says what k, whose rule is rule, means, in a cluster of so many hosts. sh is what answers.
func (k *Key) because(rule *dynamicconfig.Rule, sh *limiter.ShareStatus, hosts int) {
	var say []string
	switch {
	case rule.InFlight:
		say = k.slots(rule, sh.Aside)
	case k.Fallback:
		say = k.inFallback(rule, hosts)
	case k.Algorithm == limiter.Auto && rule.Limit == 0:
		k.Refuses = true
		say = []string{"the limit is 0: nothing is allowed"}
	case k.Asks && k.Algorithm == limiter.Auto:
		say = []string{fmt.Sprintf("this host has no part of the limit of %s yet, and asks the key's owner for each event", rule.Amount())}
	case k.Algorithm == exact.Name:
		say = []string{fmt.Sprintf("each event asks the key's owner, whose bucket has the whole limit of %s", rule.Amount())}
	case k.Algorithm == gossip:
		say = append([]string{fmt.Sprintf("this host's bucket has the whole limit of %s, and pays for what other hosts say that they used", rule.Amount())}, k.tokens(rule)...)
	case k.Asks:
		say = append([]string{fmt.Sprintf("each event asks the remote bucket, which has the whole limit of %s", rule.Amount())}, k.tokens(rule)...)
	case drops(k.Algorithm):
		say = k.dropped()
	case k.Tokens == nil:
		say = []string{"everything is allowed"}
	default:
		say = k.part(rule, sh.Asked.Pause)
	}
	k.Because = strings.Join(k.enforced(rule, say), "; ")
}

// ownersBucket adds what the bucket of the key's owner, which is asked for each event, has:
// tokens.
func (k *Key) ownersBucket(rule *dynamicconfig.Rule, tokens float64) {
	k.Limit, k.Burst, k.Tokens = finite(float64(rule.Limit)), finite(rule.Burst), &tokens
	k.Because = strings.Join(append([]string{k.Because}, k.enforced(rule, k.tokens(rule))...), "; ")
}

// enforced is say, with what becomes of events that are refused under a rule that is not
// enforced for all of them.
func (k *Key) enforced(rule *dynamicconfig.Rule, say []string) []string {
	p := rule.Enforced()
	if p == 1 || !k.Refuses {
		return say
	}
	k.Refuses = p > 0
	return append(say, fmt.Sprintf("the rule is enforced for %s%% of what is over it, and lets the rest through", number(100*p)))
}

const dropRatio = "drop-ratio"

// drops reports whether the algorithm called name has hosts refuse events by chance.
func drops(name string) bool {
	_, weigher, _ := strings.Cut(name, "/")
	return name == dropRatio || weigher == dropRatio
}

// dropped says how many events this host refuses.
func (k *Key) dropped() []string {
	if k.Passes >= 1 {
		return []string{"everything is allowed: the key's owner sees less in the cluster than the limit"}
	}
	k.Refuses = k.Passes <= 0
	return []string{fmt.Sprintf("this host refuses %s%% of all events by chance, as the key's owner instructs: the cluster is over the limit by as much", number(100*(1-k.Passes)))}
}

// slots says how many are free. Callers that wait for aside of them let others pass.
func (k *Key) slots(rule *dynamicconfig.Rule, aside int64) []string {
	most := value(k.Burst)
	var say []string
	if k.Fallback {
		say = append(say, "the key's owner has granted this host no slots"+k.since()+k.learning(rule))
		switch rule.Fallback {
		case dynamicconfig.FallbackClosed:
			k.Refuses = true
			return append(say, "`fallback: closed` refuses everything")
		case dynamicconfig.FallbackOpen:
			return append(say, "`fallback: open` allows everything")
		}
		say = append(say, fmt.Sprintf("`fallback: %s` gives it %s", rule.Fallback, number(most)))
	}
	waited := func(n int64) string { return printable.Count(int(n), "slot is", "slots are") + " waited for" }
	inLine := k.Waiting - aside
	k.Refuses = value(k.Tokens) < 1 || inLine > 0
	var has string
	switch {
	case !k.Refuses:
		has = fmt.Sprintf("%d of the %s slots of this host are held, of %s in the cluster", k.Held, number(most), rule.Amount())
	case value(k.Tokens) >= 1:
		has = fmt.Sprintf("%s of the %s slots of this host are free, of %s in the cluster: too few for the caller who is next", number(value(k.Tokens)), number(most), rule.Amount())
	case most < 1:
		has = fmt.Sprintf("this host has no slot, of %s in the cluster", rule.Amount())
	case float64(k.Held) > most:
		has = fmt.Sprintf("%d slots are held at this host, which has %s now, of %s in the cluster", k.Held, number(most), rule.Amount())
	default:
		has = fmt.Sprintf("all %s slots of this host are held, of %s in the cluster", number(most), rule.Amount())
	}
	if say = append(say, has); inLine > 0 {
		say = append(say, waited(inLine)+", and callers of higher priority are served first")
	}
	if aside > 0 {
		say = append(say, waited(aside)+" by callers that need more than this host has, and let others pass")
	}
	return say
}

// since says since when the fallback decides; empty if that is not known.
func (k *Key) since() string {
	if k.FallbackSince == nil {
		return ""
	}
	return " since " + k.FallbackSince.UTC().Format(time.DateTime) + " UTC"
}

// learning says for how long an owner that is new to the key grants nothing; empty if it does at once.
func (k *Key) learning(rule *dynamicconfig.Rule) string {
	if rule.Learning <= 0 || !rules.Leases(k.Algorithm) {
		return ""
	}
	return fmt.Sprintf(" (for `learning`, %v, an owner that is new to the key, as after a start, grants nothing to hosts that held nothing)", rule.Learning)
}

// inFallback says how the fallback decides.
func (k *Key) inFallback(rule *dynamicconfig.Rule, hosts int) []string {
	why := "the key's owner has granted this host nothing yet, or its grant ran out because the owner did not answer"
	if k.Asks && k.Algorithm != limiter.Auto {
		why = "the remote bucket does not answer"
	}
	why += k.since() + k.learning(rule)
	switch rule.Fallback {
	case dynamicconfig.FallbackOpen:
		return []string{why, "`fallback: open` allows everything"}
	case dynamicconfig.FallbackClosed:
		k.Refuses = true
		return []string{why, "`fallback: closed` refuses everything"}
	case dynamicconfig.FallbackSafe:
		return append([]string{why, fmt.Sprintf("`fallback: safe` gives this host safe_capacity, %s events/s", number(float64(rule.SafeCapacity)))}, k.tokens(rule)...)
	}
	return append([]string{why, fmt.Sprintf("`fallback: even` gives this host %s: %s, divided by %s", perSecond(value(k.Limit)), rule.Amount(), printable.Count(max(hosts, 1), "host", "hosts"))}, k.tokens(rule)...)
}

// gossip is the algorithm under which each host has a bucket of the whole limit.
const gossip = "gossip"

// part says what this host has of the limit. Under auto, the key's owner has just refused more than
// that, and may have a token after pause; 0 if asking it may help now.
func (k *Key) part(rule *dynamicconfig.Rule, pause time.Duration) []string {
	has := fmt.Sprintf("this host has %s of %s", perSecond(value(k.Limit)), rule.Amount())
	if k.Weight >= 1e-5 {
		has = fmt.Sprintf("this host has %s%% of %s, which is %s", number(100*k.Weight), rule.Amount(), perSecond(value(k.Limit)))
	}
	if k.Algorithm != limiter.Auto {
		return append([]string{has}, k.tokens(rule)...)
	}
	if value(k.Limit) < 0.001 {
		has = fmt.Sprintf("this host holds no part of the limit of %s, but tokens that the key's owner lends it", rule.Amount())
	}
	say := append([]string{has}, k.tokens(rule)...)
	switch {
	case !k.Refuses:
		return say
	case value(k.Limit) < 0.001 && value(k.Tokens) > -0.5:
		say[1] = "it has none now"
	}
	if k.Refuses = pause > 0; k.Refuses {
		return append(say, fmt.Sprintf("the key's owner, which this host has just asked for more, had none either, or did not answer: it may have a token in %v", round(pause)))
	}
	return append(say, "auto asks the key's owner for more, unless it asked too often")
}

// tokens says whether there are enough for an event that costs 1: a whole one, or less under
// max_debt, but no debt.
func (k *Key) tokens(rule *dynamicconfig.Rule) []string {
	if k.Tokens == nil {
		return nil
	}
	t, enough := *k.Tokens, 1.0
	if rule.MaxDebt > 0 { // the event borrows what fills in until then
		enough = max(1-value(k.Limit)*rule.MaxDebt.Seconds()-1e-6, 0)
	}
	if t >= enough {
		return []string{fmt.Sprintf("%s of %s tokens are there", number(t), number(value(k.Burst)))}
	}
	k.Refuses = true
	wait := next(t, enough, value(k.Limit))
	switch {
	case value(k.Limit) <= 0:
		return []string{"no tokens are there, and none come"}
	case enough == 0:
		return []string{fmt.Sprintf("it has used more than that, and is %s tokens in debt: the debt is paid in %v", number(-t), round(wait))}
	case t < -0.5:
		return []string{fmt.Sprintf("it has used more than that, and is %s tokens in debt: the next is there in %v", number(-t), round(wait))}
	case wait >= farAway:
		return []string{"all of it is used, and it fills too slowly for a next token"}
	}
	return []string{fmt.Sprintf("all of it is used: the next token is there in %v", round(wait))}
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// bucketOf has the words for what sh decides by, unless the fallback or the key's owner does.
func bucketOf(sh *limiter.ShareStatus) string {
	switch {
	case sh.Algorithm == gossip:
		return "this host's bucket"
	case sh.Asks && sh.Algorithm != limiter.Auto:
		return "the remote bucket"
	}
	return "this host's part of the limit"
}

// number is v with as many digits as people want.
func number(v float64) string {
	if v > 0 && v < 0.001 {
		return "less than 0.001"
	}
	return printable.Number(v, 3)
}

func perSecond(v float64) string { return number(v) + " events/s" }

// round is d with as many digits as people want.
func round(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Second, time.Millisecond} {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d.Round(time.Microsecond)
}

// decision says why t was decided as it was, under rule, which may be nil. by has the words for
// what an algorithm decides by.
func decision(t *limiter.Traced, rule *dynamicconfig.Rule, by string) string {
	if rule == nil {
		rule = new(dynamicconfig.Rule)
	}
	decider := map[string]string{"fallback": "the fallback `" + rule.Fallback.String() + "`", "owner": "the key's owner"}[t.By]
	if decider == "" {
		decider = by
	}
	switch t.Reason {
	case limiter.Granted:
		if t.Wait > 0 {
			return fmt.Sprintf("allowed after a wait of %v: %s has no tokens sooner", round(t.Wait), decider)
		}
		return "allowed by " + decider
	case limiter.Soft:
		if p := rule.Enforced(); p < 1 {
			return fmt.Sprintf("over the limit, and let through: the rule is enforced for %s%% only", number(100*p))
		}
		return "over the limit, and let through: the rule was enforced for a part only then, and is enforced in full now"
	case limiter.Bypassed:
		return "let through: an override bypasses the limit" + overridden(rule)
	case limiter.TooCostly:
		return fmt.Sprintf("refused: %d tokens are more than one event may cost, %s, or than a full bucket here has", t.Cost, number(rule.Costliest()))
	case limiter.Unmatched:
		return "refused: no rule matches the key, and `unmatched: deny` refuses everything"
	case limiter.TooManyKeys:
		return fmt.Sprintf("refused: the rule has its max_keys, %d, in use at this host", rule.MaxKeys)
	case limiter.InvalidKey:
		return "refused: a key has 1 to 1024 bytes"
	case limiter.InvalidCost:
		return "refused: a cost cannot be negative"
	case limiter.Forbidden:
		return fmt.Sprintf("refused before the limit was looked at: %v", t.Why)
	case limiter.Failed:
		return "refused: the key's owner, or the remote bucket, did not answer, and `fallback: closed` refuses everything"
	case limiter.InFlight:
		return "refused: the rule limits slots in flight: acquire them"
	case limiter.Canceled:
		return "refused: the caller gave up before there was an answer"
	}
	if t.By == "algorithm" && drops(rule.Algorithms()[max(rule.Answering(), 0)]) {
		return "refused by chance: the cluster is over the limit, and the key's owner has each host refuse a part of all events"
	}
	why := "refused: " + decider + " has too few tokens"
	if rule.MaxWait > 0 {
		why += fmt.Sprintf(" now, or within the time that the caller would wait, at most max_wait, %v", rule.MaxWait)
	}
	if t.RetryAfter > 0 {
		why += fmt.Sprintf("; the same event would be allowed in %v", round(t.RetryAfter))
	}
	return why
}
