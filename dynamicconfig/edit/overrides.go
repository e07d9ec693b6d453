// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	rules "github.com/headgate/headgate/dynamicconfig/rule"
)

// LongestOverride is the longest time for which operators override a limit. What is to hold
// longer belongs into a rule.
const LongestOverride = 30 * 24 * time.Hour

// NewOverride is the override of key, or of all rules if key is empty, with which limit is in force, as a
// config file writes it, from now to until.
func NewOverride(key, limit string, now, until time.Time) (o dynamicconfig.Override, err error) {
	if o, err = rules.ParseOverride(limit); err != nil {
		return o, err
	}
	o.Key, o.All, o.Until = key, key == "", until.UTC()
	if lasts := until.Sub(now); lasts <= 0 || lasts > LongestOverride {
		return o, errors.New("an override ends in the future, within 30 days: change the rule for what holds longer")
	}
	return o, nil
}

// Idle returns an error if the override of key in text, or its bypass, changes nothing at now.
func Idle(text, key string, bypass bool, now time.Time) error {
	s, err := dynamicconfig.Parse("limits", []byte(text))
	if err != nil {
		return err
	}
	for _, state := range s.OverrideStates(now) {
		if state.Key == key && state.Bypass == bypass && state.Idle != "" {
			return fmt.Errorf("this would change nothing: %s", state.Idle)
		}
	}
	return nil
}

// Override returns text with o in its section of overrides, in place of those for the
// same key or for all rules. A bypass takes the place of another bypass only, so that an
// override is back when the bypass ends. Overrides that have ended at now are removed. The section is
// written anew, so comments in it are lost. The error joins a *dynamicconfig.Error for each
// mistake.
func Override(text string, o dynamicconfig.Override, now time.Time) (string, error) {
	return overrides(text, func(all []dynamicconfig.Override) ([]dynamicconfig.Override, error) {
		return append(without(all, o.Key, o.Bypass, now), o), nil
	})
}

// ErrNoOverride is the error of EndOverride where there is no such override.
var ErrNoOverride = fmt.Errorf("there is no such override: headgate limits overrides lists them")

// EndOverride returns text without the overrides for key, or without those of all rules if
// key is empty; with bypass, only a bypass ends. Overrides that have ended at now are removed
// too. The error is ErrNoOverride if there is none.
func EndOverride(text, key string, bypass bool, now time.Time) (string, error) {
	return overrides(text, func(all []dynamicconfig.Override) ([]dynamicconfig.Override, error) {
		if !slices.ContainsFunc(all, func(o dynamicconfig.Override) bool { return o.Key == key && (o.Bypass || !bypass) }) {
			return nil, ErrNoOverride
		}
		return without(all, key, bypass, now), nil
	})
}

// without is all but what is for key, of that only bypasses if bypass is true, and what has ended.
func without(all []dynamicconfig.Override, key string, bypass bool, now time.Time) []dynamicconfig.Override {
	return slices.DeleteFunc(all, func(o dynamicconfig.Override) bool {
		return o.Key == key && (o.Bypass || !bypass) || !now.Before(o.Until)
	})
}

// overrides changes the section of overrides.
func overrides(text string, change func([]dynamicconfig.Override) ([]dynamicconfig.Override, error)) (string, error) {
	old, err := dynamicconfig.Parse("limits", []byte(text))
	if err != nil {
		return "", err
	}
	wanted, err := change(old.Overrides())
	if err != nil {
		return "", err
	}
	rules, _ := numbersOf(old)
	d, err := read(excerptOf(text, rules, nil))
	if err != nil {
		return "", err
	}
	if err := d.setOverrides(wanted); err != nil {
		return "", err
	}
	if text, err = d.apply(); err != nil {
		return "", err
	}
	s, err := dynamicconfig.Parse("limits", []byte(text))
	if err != nil {
		return "", err
	}
	for _, c := range dynamicconfig.Diff(old, s) {
		if c.Section != "overrides" {
			return "", fmt.Errorf("%w (it would change more: %v)", errLayout, c)
		}
	}
	return text, nil
}

// setOverrides writes the section of overrides anew; without wanted, it removes the section.
func (d *document) setOverrides(wanted []dynamicconfig.Override) error {
	section := ""
	if len(wanted) > 0 {
		section = string(dynamicconfig.OverridesYAML(wanted))
	}
	switch {
	case d.inFlow() && section != "":
		var list struct{ Overrides json.RawMessage }
		if err := json.Unmarshal([]byte(asJSON(section, false)), &list); err != nil {
			return err
		}
		d.setInRoot(d.overrides, "overrides", string(list.Overrides))
	case d.inFlow() && d.overrides != nil:
		d.removeBetween(d.flowField(d.overrides))
	case d.inFlow():
	case d.overrides != nil:
		begin := d.at(d.overrides.Key.GetToken())
		d.replace(begin, d.list(begin), strings.ReplaceAll(section, "\n", d.end))
	case section != "":
		d.insertLine(len(d.text), strings.TrimSuffix(strings.ReplaceAll(section, "\n", d.end), d.end))
	}
	return nil
}

// list is where the field ends that begins at a place, as block says, where the value may
// be a list whose dashes are not further in than the field.
func (d *document) list(at int) (end int) {
	column := at - d.lineOf(at)
	end = d.block(at)
	for line := end; line < len(d.text); line = d.nextLine(line) {
		indent, rest := d.indentOf(line)
		switch {
		case rest == "" || rest[0] == '#':
		case indent == column && strings.HasPrefix(rest, "-"):
			end = d.block(d.lineOf(line) + indent)
		case indent <= column:
			return end
		}
	}
	return end
}
