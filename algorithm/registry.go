// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of the accounts.
const (
	// AccountAverage keeps moving averages of what hosts use.
	AccountAverage = "average"
	// AccountPool keeps one bucket for the key, and lends what is in it to hosts.
	AccountPool = "pool"
	// AccountClaims keeps the amounts that hosts hold until a time.
	AccountClaims = "claims"
)

// Accounts are the names of all accounts.
var Accounts = []string{AccountAverage, AccountPool, AccountClaims}

// Short names of the algorithms that a Builtin registry has.
const (
	NameRequestWeighted = "request-weighted"
	NameEvenFloor       = "request-weighted-even-floor"
	NameDropRatio       = "drop-ratio"

	// One pool, and three ways to reach it.
	NameElastic = "elastic"
	NameAuto    = "auto"
	NameExact   = "exact"

	// Those that lease.
	NameNone              = "none"
	NameStatic            = "static"
	NameProportionalShare = "proportional-share"
	NameFairShare         = "fair-share"
)

// Errors of a Registry.
var (
	ErrUnknown = errors.New("unknown algorithm")
	ErrTaken   = errors.New("another algorithm has this name: choose another name")
)

// Reach is when hosts ask the owner of a key for tokens of its pool.
type Reach uint8

// The ways to reach a pool.
const (
	// ReachNever: hosts go by what they hold.
	ReachNever Reach = iota
	// ReachWhenOut: hosts ask for what they do not hold.
	ReachWhenOut
	// ReachAlways: hosts ask for each event, and hold nothing.
	ReachAlways
)

// Algorithm is how a key's limit is shared: a weigher divides it, and an account
// keeps what hosts hold.
type Algorithm struct {
	// Account is one of Accounts.
	Account string

	// Weigher divides what the account has.
	Weigher Weigher

	// Reach, of the pool, is when hosts ask for tokens.
	Reach Reach

	// Elastic are the parameters of the pool.
	Elastic Elastic
}

// Registry finds algorithms by the names that rules use: short names such as
// elastic, and pairs of an account and a weigher such as pool/fair-share. Fill it
// before use: Register and Add must not run beside any other method.
type Registry struct {
	weighers map[string]Weigher
	short    map[string]Algorithm
	names    map[string]string // of pairs that have a short name
}

// Builtin returns a new Registry of the algorithms that come with headgate.
func Builtin() *Registry {
	weighers := map[string]Weigher{
		NameRequestWeighted:   {Weigh: RequestWeighted, Form: FormDemand, Floor: FloorUnused},
		NameEvenFloor:         {Weigh: RequestWeighted, Form: FormDemand, Floor: FloorEven, Only: AccountAverage},
		NameDropRatio:         {Weigh: RequestWeighted, Form: FormDemand, Floor: FloorDrop, Only: AccountAverage},
		NameProportionalShare: {Weigh: ProportionalShare, Form: FormProportional},
		NameFairShare:         {Weigh: FairShare, Form: FormFair},
		NameNone:              {Weigh: None, Form: FormNone, Only: AccountClaims},
		NameStatic:            {Weigh: Static, Form: FormStatic, Only: AccountClaims},
	}
	r := &Registry{weighers, make(map[string]Algorithm), make(map[string]string)}
	r.short[NameAuto] = Algorithm{Account: AccountPool, Weigher: weighers[NameRequestWeighted], Reach: ReachWhenOut}
	r.short[NameExact] = Algorithm{Account: AccountPool, Weigher: weighers[NameRequestWeighted], Reach: ReachAlways}
	r.shorten(NameElastic, AccountPool, NameRequestWeighted)
	for _, name := range []string{NameRequestWeighted, NameEvenFloor, NameDropRatio} {
		r.shorten(name, AccountAverage, name)
	}
	for _, name := range []string{NameNone, NameStatic, NameProportionalShare, NameFairShare} {
		r.shorten(name, AccountClaims, name)
	}
	return r
}

// shorten makes name stand for a pair.
func (r *Registry) shorten(name, account, weigher string) {
	r.short[name] = Algorithm{Account: account, Weigher: r.weighers[weigher]}
	r.names[Pair(account, weigher)] = name
}

// Register adds weigh under name, for each account. The name alone stands for the
// pool. A name is registered once: ErrTaken otherwise.
func (r *Registry) Register(name string, weigh Weigh) error {
	if name == "" || strings.Contains(name, "/") || weigh == nil {
		return fmt.Errorf("algorithm: register %q: a name and a function are needed, and the name has no /", name)
	}
	if _, taken := r.weighers[name]; taken {
		return fmt.Errorf("algorithm: register %q: %w", name, ErrTaken)
	}
	w := Weigher{Weigh: weigh}
	if err := r.Add(name, Algorithm{Account: AccountPool, Weigher: w}); err != nil {
		return err
	}
	r.weighers[name] = w
	r.names[Pair(AccountPool, name)] = name
	return nil
}

// Add adds a under a short name: ErrTaken if there is one like it.
func (r *Registry) Add(name string, a Algorithm) error {
	if _, taken := r.short[name]; taken {
		return fmt.Errorf("algorithm: register %q: %w", name, ErrTaken)
	}
	r.short[name] = a
	return nil
}

// Pair is how rules, messages and metrics name a weigher on an account:
// pool/fair-share.
func Pair(account, weigher string) string { return account + "/" + weigher }

// Canonical is the name for the algorithm called name that is the same however a rule
// writes it: the short name of a pair that has one, and else name.
func (r *Registry) Canonical(name string) string {
	if short, ok := r.names[name]; ok {
		return short
	}
	return name
}

// Lookup returns the algorithm called name, which is a short name or a pair, or
// ErrUnknown with what there is.
func (r *Registry) Lookup(name string) (Algorithm, error) {
	if a, ok := r.short[name]; ok {
		return a, nil
	}
	account, weigher, pair := strings.Cut(name, "/")
	w, known := r.weighers[weigher]
	switch {
	case !pair:
		return Algorithm{}, fmt.Errorf("algorithm %q: %w; known are %s", name, ErrUnknown, strings.Join(r.Names(), ", "))
	case !slices.Contains(Accounts, account):
		return Algorithm{}, fmt.Errorf("algorithm %q: %w: there is no account %q; known are %s", name, ErrUnknown, account, strings.Join(Accounts, ", "))
	case !known, w.Only != "" && w.Only != account:
		return Algorithm{}, fmt.Errorf("algorithm %q: %w: account %s has no weigher %q; known are %s", name, ErrUnknown, account, weigher, strings.Join(r.Weighers(account), ", "))
	}
	return Algorithm{Account: account, Weigher: w}, nil
}

// InBand returns the weigher that `priorities` of a rule call name, or ErrUnknown. A band is always
// of claims, so a name that alone stands for another account is that of a weigher there.
func (r *Registry) InBand(name string) (Weigher, error) {
	if a, err := r.Lookup(name); err == nil && a.Account == AccountClaims {
		return a.Weigher, nil
	}
	a, err := r.Lookup(Pair(AccountClaims, name))
	return a.Weigher, err
}

// Names are all short names, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.short)) }

// Weighers are the names of those that run on account, sorted.
func (r *Registry) Weighers(account string) (names []string) {
	for name, w := range r.weighers {
		if w.Only == "" || w.Only == account {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
