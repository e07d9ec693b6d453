// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"maps"
	"slices"
	"strings"
)

// Traits are what hosts and rules must know of an algorithm that shares a
// limit. The zero Traits are those of an algorithm that weighs what hosts
// count, in regular reports.
type Traits struct {
	// Early: hosts report early under it, because its account of what they
	// hold can answer at any time.
	Early bool

	// Wants: hosts say what they want, and not only what they counted.
	Wants bool

	// Rates and Slots are what it shares: limits in events/s, and slots in
	// flight. An algorithm that headgate does not have may share both.
	Rates, Slots bool

	// Asks: a host asks the key's owner for each event, always or at times.
	Asks bool

	// Pooled: a key's owner has one pool for all such algorithms, so it knows what was used
	// under another of them.
	Pooled bool

	// Local: no owner decides. The limit is divided by the hosts.
	Local bool
}

// builtin are the algorithms that headgate has. It is the only list: rules are
// checked by it, and hosts report by it. A test of the root package compares
// it with the algorithms themselves.
var builtin = map[string]Traits{
	"even":                        {Rates: true, Slots: true, Local: true},
	"auto":                        {Rates: true, Early: true, Asks: true, Pooled: true},
	"elastic":                     {Rates: true, Early: true, Pooled: true},
	"exact":                       {Rates: true, Asks: true, Pooled: true},
	"redis":                       {Rates: true},
	"gossip":                      {Rates: true},
	"drop-ratio":                  {Rates: true},
	"request-weighted":            {Rates: true},
	"request-weighted-even-floor": {Rates: true},
	"none":                        {Rates: true, Slots: true, Wants: true},
	"static":                      {Rates: true, Slots: true, Wants: true},
	"proportional-share":          {Rates: true, Slots: true, Wants: true},
	"fair-share":                  {Rates: true, Slots: true, Wants: true},
}

// accounts are the accounts that headgate has: a rule may name one beside a
// weigher, as in pool/fair-share.
var accounts = map[string]Traits{
	"average": {Rates: true},
	"pool":    {Rates: true, Early: true},
	"claims":  {Rates: true, Slots: true, Wants: true},
}

// TraitsOf returns the Traits of an algorithm that headgate has, or of any weigher on
// one of its accounts; false if it does not have it.
func TraitsOf(algorithm string) (Traits, bool) {
	if account, weigher, pair := strings.Cut(algorithm, "/"); pair {
		if account == "pool" && weigher == "request-weighted" { // another name of elastic
			return builtin["elastic"], true
		}
		t, ok := accounts[account]
		return t, ok
	}
	t, ok := builtin[algorithm]
	return t, ok
}

// measured begins the names that Measured returns. The names of algorithms have no spaces.
const measured = "measured "

// Measured is how hosts and owners name an algorithm that a migration only measures, while another one of
// the same pool answers. The pool is the answering one's. The owner measures with another pool, from
// which no event that happens is taken.
func Measured(algorithm string) string { return measured + algorithm }

// Plain is the algorithm that is named, and whether it is only measured.
func Plain(name string) (algorithm string, isMeasured bool) { return strings.CutPrefix(name, measured) }

// Leases reports whether an algorithm leases a capacity out, as far as its
// name tells: one of the service's own may do so.
func Leases(algorithm string) bool {
	t, ok := TraitsOf(algorithm)
	return !ok || t.Wants
}

// BuiltIn are the names of the algorithms that headgate has, sorted.
func BuiltIn() []string { return slices.Sorted(maps.Keys(builtin)) }

// Accounts are the names of the accounts that headgate has, sorted.
func Accounts() []string { return slices.Sorted(maps.Keys(accounts)) }
