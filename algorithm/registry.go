// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of the algorithms that a Builtin registry has.
const (
	NameRequestWeighted = "request-weighted"
	NameEvenFloor       = "request-weighted-even-floor"
	NameElastic         = "elastic"
	NameDropRatio       = "drop-ratio"

	// Those that lease.
	NameNone              = "none"
	NameStatic            = "static"
	NameProportionalShare = "proportional-share"
	NameFairShare         = "fair-share"
)

// Errors of a Registry.
var (
	ErrUnknown = errors.New("unknown algorithm")
	ErrTaken   = errors.New("algorithm name is taken")
)

// Registry finds algorithms by the names that rules use. Fill it before use:
// Register must not run beside any other method.
type Registry struct{ byName map[string]Algorithm }

// Builtin returns a new Registry of the algorithms that come with headgate.
func Builtin() *Registry {
	return &Registry{map[string]Algorithm{
		NameRequestWeighted: RequestWeighted{},
		NameEvenFloor:       EvenFloor{},
		NameElastic:         Elastic{},
		NameAuto:            Auto{},
		NameDropRatio:       DropRatio{},

		NameNone:              None{},
		NameStatic:            Static{},
		NameProportionalShare: ProportionalShare{},
		NameFairShare:         FairShare{},
	}}
}

// Register adds a under name. A name is registered once: ErrTaken otherwise.
func (r *Registry) Register(name string, a Algorithm) error {
	switch {
	case name == "" || a == nil:
		return errors.New("algorithm: register: a name and an algorithm are needed")
	case r.byName[name] != nil:
		return fmt.Errorf("algorithm: register %q: %w", name, ErrTaken)
	}
	r.byName[name] = a
	return nil
}

// Lookup returns the algorithm called name, or ErrUnknown.
func (r *Registry) Lookup(name string) (Algorithm, error) {
	if a := r.byName[name]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("algorithm %q: %w; known are %s", name, ErrUnknown, strings.Join(r.Names(), ", "))
}

// Names are all names, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.byName)) }

// Stateful are the names of those that keep an account of what hosts hold,
// sorted. They can answer at any time, so hosts report early under them.
func (r *Registry) Stateful() []string { return named[Stateful](r) }

// Leasing are the names of those that share by what hosts want, sorted. Hosts
// say under them what they want.
func (r *Registry) Leasing() []string { return named[Leasing](r) }

// named are the names of those that are a T, sorted.
func named[T Algorithm](r *Registry) (names []string) {
	for name, a := range r.byName {
		if _, ok := a.(T); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
