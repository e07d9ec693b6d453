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
// fields are, in small letters: overcommit, horizon, repay. Durations are as in 200ms. With
// refuses names that it does not know and values out of range, and returns all that is wrong.
func (e Elastic) With(parameters map[string]string) (Elastic, error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		value, err := parameters[name], error(nil)
		switch name {
		case "overcommit":
			e.Overcommit, err = part(value)
		case "horizon":
			e.Horizon, err = duration(value)
		case "repay":
			e.Repay, err = duration(value)
		default:
			errs = append(errs, fmt.Errorf("%w %s: use overcommit, horizon or repay", ErrParameter, shown(name)))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%w %s: %s: %w", ErrParameter, name, shown(value), err))
		}
	}
	return e, errors.Join(errs...)
}

// least stands for zero, because a field that is zero has its default.
const least = 1e-9

// part is a parameter that is a number from 0 to 1.
func part(value string) (float64, error) {
	x, err := strconv.ParseFloat(value, 64)
	if err != nil || !(x >= 0 && x <= 1) {
		return 0, errors.New("not a number from 0 to 1")
	}
	return max(x, least), nil
}

const longest = 24 * time.Hour

// duration is a parameter that is a time span.
func duration(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Millisecond || d > longest {
		return 0, errors.New("not a duration from 1ms to 24h, such as 200ms or 3s")
	}
	return d, nil
}

// shown is what the file says, quoted, and cut if it is long.
func shown(text string) string {
	if runes := []rune(text); len(runes) > 40 {
		text = string(runes[:40]) + "…"
	}
	return strconv.Quote(text)
}
