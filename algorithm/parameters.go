// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrParameter is in all errors about named parameters.
var ErrParameter = errors.New("bad parameter")

// Build returns the algorithm called name with the parameters that a rule
// names: ErrUnknown if there is none, ErrParameter if it does not take them.
func (r *Registry) Build(name string, parameters map[string]string) (Algorithm, error) {
	a, err := r.Lookup(name)
	if err != nil || len(parameters) == 0 {
		return a, err
	}
	if a.Account != AccountPool || a.Reach != ReachNever {
		var names []string
		for _, parameter := range slices.Sorted(maps.Keys(parameters)) {
			names = append(names, shown(parameter))
		}
		return Algorithm{}, fmt.Errorf("algorithm %q: %w: it takes none: remove %s", name, ErrParameter, strings.Join(names, ", "))
	}
	if a.Elastic, err = a.Elastic.With(parameters); err != nil {
		return Algorithm{}, fmt.Errorf("algorithm %q: %w", name, err)
	}
	return a, nil
}

// With returns e with these parameters instead of its own. They are named as the
// fields are, in small letters: overcommit, horizon, repay. Durations are as in 200ms. It
// refuses names that it does not know and values out of range.
func (e Elastic) With(parameters map[string]string) (Elastic, error) {
	err := set(parameters, map[string]setter{
		"overcommit": number(&e.Overcommit, 0, 1),
		"horizon":    duration(&e.Horizon),
		"repay":      duration(&e.Repay),
	})
	return e, err
}

// setter takes a parameter's value.
type setter func(value string) error

// set gives every setter its parameter, and returns all that is wrong.
func set(parameters map[string]string, setters map[string]setter) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		s := setters[name]
		if s == nil {
			errs = append(errs, fmt.Errorf("%w %s: use overcommit, horizon or repay", ErrParameter, shown(name)))
			continue
		}
		if err := s(parameters[name]); err != nil {
			errs = append(errs, fmt.Errorf("%w %s: %s: %w", ErrParameter, name, shown(parameters[name]), err))
		}
	}
	return errors.Join(errs...)
}

// next stands for zero, because a zero field is the default. It is
// next to it.
const next = 1e-9

// number is a parameter that is a number from low to high.
func number(to *float64, low, high float64) setter {
	return func(value string) error {
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || !(x >= low && x <= high) {
			return fmt.Errorf("not a number from %v to %v", low, high)
		}
		*to = max(x, next)
		return nil
	}
}

const longest = 24 * time.Hour

// duration is a parameter that is a time span.
func duration(to *time.Duration) setter {
	return func(value string) error {
		d, err := time.ParseDuration(value)
		if err != nil || d < time.Millisecond || d > longest {
			return errors.New("not a duration from 1ms to 24h, such as 200ms or 3s")
		}
		*to = d
		return nil
	}
}

// shown is what somebody wrote, quoted, and cut if it is long.
func shown(text string) string {
	if runes := []rune(text); len(runes) > 40 {
		text = string(runes[:40]) + "…"
	}
	return strconv.Quote(text)
}
