// SPDX-License-Identifier: Apache-2.0

// Package explain says why a key is limited as it is, for people and for pages: what one
// host knows of the key, and what that means in a sentence.
//
//	key := explain.Look(group, limits.Current(), hosts, "login:alice")
//	fmt.Println(key.Because) // "this host has used its part, 25 of 100 events/s: …"
//
// A Node asks all hosts: see its Explain. What was decided is remembered only of keys that
// are traced: see Decisions.
package explain

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/printable"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/rpc"
)

// Key is what one host knows of a key. Rates are in events/s, or in slots where the rule
// limits those.
type Key struct {
	// Key is the key, or, if its rule is private, what Rule.Shown makes of it.
	Key string `json:"key"`

	// InUse: the host has state of the key. Without it, only Rule and Because say
	// anything.
	InUse bool `json:"in_use"`

	// Private: the rule is private.
	Private bool `json:"private"`

	// Rule is the pattern of the rule; empty if none matches.
	Rule string `json:"rule,omitempty"`

	// Algorithm is the one that answers, and Mode that of a migration.
	Algorithm string `json:"algorithm,omitempty"`
	Mode      string `json:"mode,omitempty"`

	Part
	Counts

	// UsedBy is how many hosts use the key, programs that listen nowhere among them. It is
	// set in lists of keys only, at the host that owns the key.
	UsedBy int `json:"used_by,omitempty"`

	// Refuses: an event that costs 1 would be refused now.
	Refuses bool `json:"refuses"`

	// Because says in a sentence why events are refused here now, or how they are decided.
	Because string `json:"because"`
}

// Part is what one host has of a key's limit, and what it decides by.
type Part struct {
	// Limit and Burst are this host's part now. Tokens are what is there of it: negative
	// in debt. Nil where nothing is limited.
	Limit  *float64 `json:"limit,omitempty"`
	Burst  *float64 `json:"burst,omitempty"`
	Tokens *float64 `json:"tokens,omitempty"`

	// Weight is the part of the limit that the key's owner granted, in [0, 1], and Lease
	// for how much longer, in seconds.
	Weight float64 `json:"weight"`
	Lease  float64 `json:"lease_seconds"`

	// Fallback: there is no grant, or the remote bucket does not answer.
	Fallback bool `json:"fallback"`

	// FallbackSince is since when, to the second, by the host's clock; nil if Fallback is
	// false. A key that came to life without a grant is in fallback since then.
	FallbackSince *time.Time `json:"fallback_since,omitempty"`

	// Passes is the part of all events that the host lets pass, in [0, 1]: less than 1
	// while drop-ratio has it refuse events by chance.
	Passes float64 `json:"passes"`

	// Asks: its bucket is elsewhere, and is asked for each event. Under a bypass, no bucket is asked.
	Asks bool `json:"asks"`
}

// Counts are what one host has counted of a key.
type Counts struct {
	// Allowed and Rejected count cost since the key came to life at this host. In lists of keys
	// by amount, what programs were allowed and rejected that report at its edge is among it.
	Allowed  int64 `json:"allowed"`
	Rejected int64 `json:"rejected"`

	// Held and Waiting are slots in flight.
	Held    int64 `json:"held,omitempty"`
	Waiting int64 `json:"waiting,omitempty"`

	// Asked, Granted and Withheld count the events that auto asked the key's owner for.
	Asked    int64 `json:"asked,omitempty"`
	Granted  int64 `json:"granted,omitempty"`
	Withheld int64 `json:"withheld,omitempty"`
}

// Explanation is why a key is limited as it is, over all hosts of a cluster.
type Explanation struct {
	// Key is the key, or, if its rule is private, what Rule.Shown makes of it.
	Key string `json:"key"`

	// Because says it in a sentence.
	Because string `json:"because"`

	// Rule is the key's rule as a config file has it, with all its fields; nil if none
	// matches.
	Rule map[string]any `json:"rule,omitempty"`

	// Owner is the host that owns the key; empty if there is none. OwnerAnswers says
	// whether it answered just now.
	Owner        string `json:"owner"`
	OwnerAnswers bool   `json:"owner_answers"`

	// Owned is what the owner knows of the key under each algorithm, most often one; empty
	// if the owner does not answer, or if no host reports to it, as under `even`.
	Owned []Owned `json:"owned,omitempty"`

	// OwnerEpoch is since when the owner knows the members of which it is one; the zero
	// Time if it does not answer.
	OwnerEpoch time.Time `json:"owner_epoch,omitzero"`

	// Hosts is what each host knows, sorted by name, members before programs.
	Hosts []Host `json:"hosts"`
}

// Host is what one host knows of a key.
type Host struct {
	Host string `json:"host"`

	// Error is why the host did not answer; empty if it did. Then the rest is empty.
	Error string `json:"error,omitempty"`

	// Limits is the version of the limits that are in force there.
	Limits string `json:"limits,omitempty"`

	// Owner is who owns the key, as this host knows the members, and Epoch since when it
	// knows these members, by its clock. Owners of an earlier epoch are not asked any more.
	Owner string    `json:"owner,omitempty"`
	Epoch time.Time `json:"epoch,omitzero"`

	Key Key `json:"key"`

	// Program says that the host is no member, and listens nowhere: it reports at the edge of
	// members. Answered is when its answer came; nil if it has not answered yet, or is of an
	// earlier release. Then only AtOwner is known of it.
	Program  bool       `json:"program,omitempty"`
	Answered *time.Time `json:"answered,omitempty"`

	// AtOwner is what the key's owner knows of the host; nil if nothing.
	AtOwner *AtOwner `json:"at_owner,omitempty"`

	// Owned is what the host knows of the key as its owner, and Programs are the programs that
	// answered at its edge. Both are empty in an Explanation.
	Owned    []Owned `json:"owned,omitempty"`
	Programs []Host  `json:"programs,omitempty"`

	// Traced: the newest decisions about the key are remembered there.
	Traced    bool       `json:"traced"`
	Decisions []Decision `json:"decisions,omitempty"`
}

// Here is what the host called name knows of key, by its group.
func Here(name string, group *limiter.Group, limits *dynamicconfig.Snapshot, hosts int, key string) Host {
	h := Host{Host: name, Limits: limits.Version(), Key: Look(group, limits, hosts, key)}
	h.Decisions, h.Traced = Decisions(group, limits, key)
	return h
}

// Sum is the Explanation of key under limits: owner is who owns it, and hosts what each
// host knows.
func Sum(limits *dynamicconfig.Snapshot, key, owner string, hosts []Host) Explanation {
	e := Explanation{Key: shown(limits, key), Owner: owner, Hosts: hosts}
	rule, ok := limits.Match(key)
	e.together(rule)
	if ok {
		e.askedOwner(rule)
		e.Rule = maps.Collect(rule.Fields())
	}
	use, fallback, refuse, silent, other, elsewhere, waits := 0, 0, 0, 0, 0, 0, 0
	for _, h := range e.Hosts {
		if h.Program && h.Answered == nil {
			waits++
			use++ // its owner knows it
			continue
		}
		if h.Host == owner && h.Error == "" {
			e.OwnerAnswers, e.OwnerEpoch = true, h.Epoch
		}
		switch {
		case h.Error != "":
			silent++
			continue
		case h.Limits != limits.Version() && !h.Program: // a program has limits of its own
			other++
		}
		elsewhere += count(h.Owner != "" && h.Owner != owner)
		use += count(h.Key.InUse)
		fallback += count(h.Key.Fallback)
		refuse += count(h.Key.Refuses)
	}
	var say []string
	if !ok {
		because, _ := unmatched(limits)
		say = append(say, because)
	} else {
		say = append(say, fmt.Sprintf("the rule %q limits the key to %s", rule.Key, rule.Amount()+overridden(rule)))
		if rule.Parent {
			say = append(say, "by `parent: true`, it has what the cluster above leases to this one, and at most that")
		}
		if use == 0 && key == rule.Key && rule.IsGlob() && !rule.Shared {
			say = append(say, "this is the pattern of a rule, and each key that it matches is limited alone: name one of these keys")
		}
		say = append(say, fmt.Sprintf("%d of %s it", use, printable.Count(len(e.Hosts), "host uses", "hosts use")))
		if refuse > 0 {
			say = append(say, fmt.Sprintf("%d would refuse an event now", refuse))
		}
		if fallback > 0 {
			say = append(say, fmt.Sprintf("%s by `fallback: %s`", printable.Count(fallback, "goes", "go"), rule.Fallback))
		}
		if owner != "" && !e.OwnerAnswers {
			say = append(say, fmt.Sprintf("the key's owner, %s, does not answer", owner))
		}
	}
	if elsewhere > 0 {
		say = append(say, printable.Count(elsewhere, "asks another owner: it knows other members", "ask another owner: they know other members"))
	}
	if silent > 0 {
		say = append(say, printable.Count(silent, "host does not answer", "hosts do not answer"))
	}
	if waits > 0 {
		say = append(say, printable.Count(waits, "program listens nowhere, and answers with a report", "programs listen nowhere, and answer with a report of theirs"))
	}
	if other > 0 {
		say = append(say, printable.Count(other, "has another version of the limits", "have another version of the limits"))
	}
	e.Because = strings.Join(say, "; ")
	return e
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Look returns what group knows of key under limits, in a cluster of so many hosts. It
// changes nothing, and brings no key to life. Neither group nor limits may be nil.
func Look(group *limiter.Group, limits *dynamicconfig.Snapshot, hosts int, key string) Key {
	k := Key{Key: shown(limits, key)}
	rule, ok := limits.Match(key)
	switch {
	case len(key) == 0 || len(key) > rpc.MaxKeyLength:
		k.Refuses, k.Because = true, "a key has 1 to 1024 bytes: everything is refused"
		return k
	case !ok:
		k.Because, k.Refuses = unmatched(limits)
		return k
	}
	k.Rule, k.Private = rule.Key, rule.Private
	if rule.Migration != nil {
		k.Mode = rule.Migration.Mode.String()
		if rule.Migration.Mode == dynamicconfig.ModeDisabled {
			k.Because = "the mode `disabled` allows everything, and counts nothing"
			return k
		}
	}
	status, live := group.Inspect(rule.BucketKey(key))
	live = live && len(status.Shares) > 0
	if live {
		k.fill(status.Answering())
	}
	if rule.Bypassed() {
		k.Asks = false
		k.Because = "everything is let through: " + rule.Override.String()
		return k
	}
	if !live {
		k.Algorithm = rule.Algorithm
		if n, placed := group.Others(key); !placed && n >= int64(rule.MaxKeys) && !rule.Shared {
			k.Refuses = true
			k.Because = strings.Join(k.enforced(rule, []string{fmt.Sprintf("the rule has max_keys: %d, and %s it at this host: further keys are refused until others were idle for %v", rule.MaxKeys, printable.Count(n, "key uses", "keys use"), rule.IdleAfter)}), "; ")
			return k
		}
		k.Because = "no caller uses the key at this host"
		return k
	}
	k.because(rule, status.Answering(), hosts)
	k.Because += overridden(rule)
	return k
}

// shown is key as people may see it. Of a key that is too long to be valid, it is the beginning.
func shown(limits *dynamicconfig.Snapshot, key string) string {
	if len(key) > rpc.MaxKeyLength {
		return limits.Shown(key[:rpc.MaxKeyLength]) + "…"
	}
	return limits.Shown(key)
}

// unmatched says what becomes of keys that no rule matches.
func unmatched(limits *dynamicconfig.Snapshot) (because string, refuses bool) {
	if limits.Unmatched() == dynamicconfig.UnmatchedDeny {
		return "no rule matches the key, and `unmatched: deny` refuses everything", true
	}
	return "no rule matches the key, and `unmatched: allow` allows everything", false
}

// fill sets what sh, which answers, says of k.
func (k *Key) fill(sh *limiter.ShareStatus) {
	k.InUse, k.Algorithm = true, sh.Algorithm
	k.Limit, k.Burst, k.Tokens = finite(float64(sh.Level.Limit)), finite(sh.Level.Burst), finite(sh.Level.Tokens)
	k.Weight, k.Lease = sh.Weight, sh.Lease.Seconds()
	k.Fallback, k.Asks, k.Passes = sh.Fallback, sh.Asks, sh.Passes
	if !sh.FallbackSince.IsZero() {
		k.FallbackSince = &sh.FallbackSince
	}
	k.Allowed, k.Rejected = sh.Allowed, sh.Rejected
	k.Held, k.Waiting = sh.Held, sh.Waiting
	k.Asked, k.Granted, k.Withheld = sh.Asked.Asks, sh.Asked.Granted, sh.Asked.Withheld
}

func finite(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) || v >= math.MaxFloat64 {
		return nil
	}
	return &v
}

// farAway is a time for which no caller waits.
const farAway = 24 * time.Hour

// next is after how long there are enough tokens, at most farAway.
func next(tokens, enough, limit float64) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(min((enough-tokens)/limit*1e9, float64(farAway)))
}

// Decision is one decision about a key that is traced.
type Decision struct {
	Time time.Time `json:"time"`
	Cost int64     `json:"cost"` // in tokens

	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"` // as in metrics
	By      string `json:"by"`     // algorithm, fallback or owner

	// Wait is how long the caller was asked to wait, in seconds; RetryAfter after how long
	// the same event would be allowed, 0 if that is not known.
	Wait       float64 `json:"wait_seconds"`
	RetryAfter float64 `json:"retry_after_seconds"`

	// Because says it in a sentence.
	Because string `json:"because"`
}

// Decisions are the newest decisions of group about key, which is traced, the oldest first,
// in the words of limits. It returns false if key is not traced.
func Decisions(group *limiter.Group, limits *dynamicconfig.Snapshot, key string) ([]Decision, bool) {
	traced, ok := group.Traced(key)
	if !ok {
		return nil, false
	}
	rule, _ := limits.Match(key)
	by := bucketOf(new(limiter.ShareStatus))
	if rule == nil {
		by = "`unmatched: allow`, as no rule matches the key"
	} else if status, live := group.Inspect(rule.BucketKey(key)); live && len(status.Shares) > 0 {
		by = bucketOf(status.Answering())
	}
	all := make([]Decision, len(traced))
	for i, t := range traced {
		all[i] = Decision{
			Time: t.Time, Cost: t.Cost, Allowed: t.Reason <= limiter.Bypassed, Reason: t.Reason.String(), By: t.By,
			Wait: t.Wait.Seconds(), RetryAfter: t.RetryAfter.Seconds(), Because: decision(&t, rule, by),
		}
	}
	return all, true
}
