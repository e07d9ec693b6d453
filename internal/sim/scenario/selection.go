// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/internal/sim/traffic"
)

// Selection is some of the hosts, as a scenario writes it: `all`, `0-4, 7`,
// names, `random 3`, `owners`, `owner of KEY`, and in a tree `hosts of CLUSTER`
// and `owners of CLUSTER`. The zero Selection is none.
type Selection struct {
	text   string
	Fixed  []int  // by number; owners come after the hosts
	random int    // so many of the hosts
	owner  string // of this key, when it is looked up
}

// String is the selection as the scenario writes it.
func (s Selection) String() string { return s.text }

// Empty reports whether s is none.
func (s Selection) Empty() bool { return s.text == "" }

// Among resolves s, in increasing order without repeats; hosts is how many
// hosts can be drawn from, owner who owns a key (-1: nobody).
func (s Selection) Among(r *rand.Rand, hosts int, owner func(key string) int) []int {
	switch {
	case s.owner != "":
		if h := owner(s.owner); h >= 0 {
			return []int{h}
		}
		return nil
	case s.random > 0:
		return traffic.Pick(r, traffic.UpTo(hosts), s.random)
	}
	return s.Fixed
}

// selection reads text, in a scenario whose hosts are known.
func selection(text string, sc *Scenario) (Selection, error) {
	hosts := sc.Hosts
	s := Selection{text: text}
	text = strings.TrimSpace(text)
	if key, ok := strings.CutPrefix(text, "owner of "); ok {
		s.owner = strings.TrimSpace(key)
		if s.owner == "" {
			return s, fmt.Errorf("%q names no key: write owner of frontend:orders", text)
		}
		return s, nil
	}
	if n, ok := strings.CutPrefix(text, "random "); ok {
		var err error
		if s.random, err = strconv.Atoi(strings.TrimSpace(n)); err != nil || s.random < 1 || s.random > len(hosts) {
			return s, fmt.Errorf("%q: write random 1 to random %d", text, len(hosts))
		}
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		some, err := parseHosts(strings.TrimSpace(part), sc)
		if err != nil {
			return s, err
		}
		s.Fixed = append(s.Fixed, some...)
	}
	slices.Sort(s.Fixed)
	s.Fixed = slices.Compact(s.Fixed)
	return s, nil
}

// parseHosts reads one part between commas.
func parseHosts(part string, sc *Scenario) ([]int, error) {
	hosts, owners := sc.Hosts, sc.Owners
	if some, name, ok := strings.Cut(part, " of "); ok && (some == "hosts" || some == "owners") {
		return sc.of(some == "owners", strings.TrimSpace(name))
	}
	switch part {
	case "all":
		return traffic.UpTo(len(hosts)), nil
	case "owners":
		if owners == 0 {
			return nil, fmt.Errorf("there are no hosts that only decide: set owners, or write owner of KEY")
		}
		return traffic.UpTo(len(hosts) + owners)[len(hosts):], nil
	}
	for i, name := range hosts {
		if name == part {
			return []int{i}, nil
		}
	}
	if n, ok := strings.CutPrefix(part, "owner-"); ok {
		if i, err := strconv.Atoi(n); err == nil && i >= 0 && i < owners {
			return []int{len(hosts) + i}, nil
		}
	}
	low, high, isRange := strings.Cut(part, "-")
	from, err := strconv.Atoi(strings.TrimSpace(low))
	to := from
	if err == nil && isRange {
		to, err = strconv.Atoi(strings.TrimSpace(high))
	}
	if err != nil || from < 0 || to < from || to >= len(hosts) {
		return nil, fmt.Errorf("%q is none of the %d hosts: write all, numbers from 0 to %d as in 0-4, 7, a name, random 3, owners or owner of KEY",
			part, len(hosts), len(hosts)-1)
	}
	return traffic.UpTo(to + 1)[from:], nil
}

// of are the hosts, or the owners, of the clusters called name.
func (sc *Scenario) of(owners bool, name string) (all []int, err error) {
	clusters := sc.named(name)
	if len(clusters) == 0 {
		return nil, fmt.Errorf("there is no cluster %.40q: name one of clusters, or one copy of it as in region-0", name)
	}
	for _, i := range clusters {
		of := sc.Clusters[i].Hosts
		if owners {
			of = sc.Clusters[i].Owners
		}
		for n := of[0]; n < of[1]; n++ {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the cluster %.40q has none", name)
	}
	return all, nil
}
