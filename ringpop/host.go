// SPDX-License-Identifier: Apache-2.0

package ringpop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Host is one member of a ring.
type Host struct {
	// Address is where the host is reached, such as "10.0.0.1:7933". It is
	// what Owner returns. Required, and unique in a ring.
	Address string

	// Identity is what places the host on the ring, so that a host which
	// comes back at another address keeps its keys. "" means Address.
	// When hosts share an identity, the one with the smallest address owns
	// all of its keys, until that one leaves.
	Identity string

	// Labels say more about the host, such as "zone=a,version=2". They do not
	// move keys: weightings look at them. "" means none.
	Labels string
}

// LabelMap is Labels taken apart. What has no = has an empty value, and of two
// values of one name the last counts. Nil: there are none.
func (h Host) LabelMap() map[string]string {
	if h.Labels == "" {
		return nil
	}
	labels := make(map[string]string)
	for label := range strings.SplitSeq(h.Labels, ",") {
		name, value, _ := strings.Cut(label, "=")
		if name = strings.TrimSpace(name); name != "" {
			labels[name] = strings.TrimSpace(value)
		}
	}
	return labels
}

// Validate reports all that keeps hosts from forming a ring, joined in one
// error: empty addresses, and addresses that stand twice. No hosts at all are
// a valid ring.
func Validate(hosts []Host) error {
	return canonical(slices.Clone(hosts))
}

// ValidateMembers is Validate for hosts that call each other: it refuses addresses that
// CheckAddress refuses, and labels that Host.ValidateLabels refuses.
func ValidateMembers(hosts []Host) error {
	var errs []error
	for i := range hosts {
		if hosts[i].Address != "" { // else Validate says so
			errs = append(errs, CheckAddress("member", hosts[i].Address))
		}
		errs = append(errs, hosts[i].ValidateLabels())
	}
	return errors.Join(append(errs, Validate(hosts))...)
}

// ValidateLabels returns an error if Labels has no = where it has a colon: zone:a would be a label
// of that name, without a value.
func (h Host) ValidateLabels() error {
	for label := range strings.SplitSeq(h.Labels, ",") {
		if name, value, ok := strings.Cut(label, ":"); ok && !strings.Contains(label, "=") {
			return fmt.Errorf("label %q of host %q has no value: write it as in %s=%s", label, h.Address, strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
	return nil
}

// canonical sorts hosts, and makes equal hosts equal values: an Identity that only
// repeats the address is left out. Its errors are those of Validate.
func canonical(hosts []Host) error {
	var errs []error
	for i := range hosts {
		h := &hosts[i]
		if h.Address == "" {
			errs = append(errs, fmt.Errorf("host %d of %d (identity %q) has no address: give each host the address that others reach it at", i+1, len(hosts), h.Identity))
		}
		if h.Identity == h.Address {
			h.Identity = ""
		}
	}
	slices.SortFunc(hosts, byAddress)
	for i := 1; i < len(hosts); i++ {
		a := hosts[i].Address
		first := a != hosts[i-1].Address
		if first || a == "" || i > 1 && a == hosts[i-2].Address {
			continue // said already, or nothing to say
		}
		errs = append(errs, fmt.Errorf("host %q is listed more than once: list each address once", a))
	}
	if len(errs) > 0 {
		return fmt.Errorf("ringpop: %w", errors.Join(errs...))
	}
	return nil
}

func byAddress(a, b Host) int { return strings.Compare(a.Address, b.Address) }
