// SPDX-License-Identifier: Apache-2.0

package change

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/command"
)

// confirm says what is dangerous, and asks whether it is meant, unless yes says so.
func confirm(cmd *cobra.Command, yes bool, why ...string) error {
	for _, danger := range why {
		fmt.Fprintf(cmd.ErrOrStderr(), "dangerous: %s\n", danger)
	}
	if len(why) == 0 || yes {
		return nil
	}
	answer, err := ask(cmd, "Do it? [y/N] ")
	if err != nil || !strings.HasPrefix(strings.ToLower(answer), "y") {
		return command.WithCode(errors.New("nothing was changed, because the change was not confirmed: answer y, or add --yes"), exitUnconfirmed)
	}
	return nil
}

// dangers says what in changes may hurt at once.
func dangers(old, new *dynamicconfig.Snapshot, changes []dynamicconfig.Change) (why []string) {
	if len(changes) == 0 {
		return nil
	}
	named := make(map[string]bool, len(changes))
	for _, c := range changes {
		named[c.Name] = true
	}
	rulesOf := func(s *dynamicconfig.Snapshot) map[string]dynamicconfig.Rule {
		some := make(map[string]dynamicconfig.Rule, len(changes))
		for _, r := range s.Rules() {
			if named[r.Key] {
				some[r.Key] = r
			}
		}
		return some
	}
	before, after := rulesOf(old), rulesOf(new)
	for _, c := range changes {
		was, is := before[c.Name], after[c.Name]
		switch {
		case c.Section == "unmatched" && new.Unmatched() == dynamicconfig.UnmatchedDeny:
			why = append(why, "all events of keys without a rule are refused")
		case c.Section == "overrides" && c.Kind != dynamicconfig.Removed:
			if text := dangerOf(old, new, c.Name, is); text != "" {
				why = append(why, text)
			}
		case c.Section != "limits" || c.Kind == dynamicconfig.Reordered:
		case c.Kind == dynamicconfig.Removed && was.IsGlob():
			why = append(why, fmt.Sprintf("the rule %q is removed, which is for many keys", c.Name))
		case c.Kind == dynamicconfig.Changed && was.InFlight == is.InFlight && is.Limit < was.Limit/2:
			why = append(why, fmt.Sprintf("the limit of %q becomes less than half: %s → %s", c.Name, limitsfile.LimitOf(&was), limitsfile.LimitOf(&is)))
		}
	}
	return why
}

// dangerOf says what the override of key that new has and old has not may hurt at once, which is of all rules if key is
// empty; "" if nothing, as of one that is for a single key. r is the rule with this key.
func dangerOf(old, new *dynamicconfig.Snapshot, key string, r dynamicconfig.Rule) string {
	before, all := old.Overrides(), new.Overrides()
	o := &all[slices.IndexFunc(all, func(o dynamicconfig.Override) bool {
		was := slices.IndexFunc(before, func(b dynamicconfig.Override) bool { return b.Key == o.Key && b.Bypass == o.Bypass })
		return o.Key == key && (was < 0 || !maps.Equal(maps.Collect(before[was].Fields()), maps.Collect(o.Fields())))
	})]
	switch {
	case o.All && o.Bypass:
		return "all events are let through" + butFor(new, time.Now())
	case o.Bypass:
	case o.All && o.Factor < 0.5:
		return "the limits of all rules without an override of their own become less than half: " + o.Amount()
	case r.IsGlob():
		if on := o.On(&r); on.Limit < r.Limit/2 {
			return fmt.Sprintf("the limit of %q becomes less than half: %s → %s", key, limitsfile.LimitOf(&r), limitsfile.LimitOf(on))
		}
	}
	return ""
}

// butFor says which overrides that hold at now count before a bypass of all rules, and what to do about them.
func butFor(s *dynamicconfig.Snapshot, now time.Time) string {
	states := s.OverrideStates(now)
	bypassed := make(map[string]bool)
	for _, o := range states {
		bypassed[o.Key] = bypassed[o.Key] || o.Bypass && !o.Ended
	}
	const most = 10
	var own []string
	for _, o := range states {
		switch {
		case o.Ended || o.Idle != "" || bypassed[o.Key]:
		case len(own) == most:
			own = append(own, "…")
		case len(own) < most:
			own = append(own, strconv.Quote(o.Key))
		}
	}
	if len(own) == 0 {
		return ""
	}
	return ", but for those of " + strings.Join(own, ", ") + ", with an override of their own: bypass these by name, too, or they stay limited"
}

// ask asks a question on stderr, and reads one line of stdin.
func ask(cmd *cobra.Command, question string) (answer string, err error) {
	fmt.Fprint(cmd.ErrOrStderr(), question)
	var line []byte
	for one := make([]byte, 1); ; { // no more than the line: an editor may read the rest
		n, err := cmd.InOrStdin().Read(one)
		switch {
		case n == 1 && one[0] == '\n':
			return strings.TrimSpace(string(line)), nil
		case n == 1:
			line = append(line, one[0])
		case err == io.EOF && len(line) > 0:
			return strings.TrimSpace(string(line)), nil
		case err != nil:
			fmt.Fprintln(cmd.ErrOrStderr())
			return "", err
		}
	}
}
