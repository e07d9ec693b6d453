// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
)

// Field is one field of a rule.
type Field struct {
	// Name is as in a config file: limit, max_keys.
	Name string

	// Value is the value as a config file has it, without quotes: 200/s, 10%, exact. A
	// value with parts is a map in one line: {scope: host}. Empty removes the field.
	Value string
}

// ErrNoRule is the error of Remove where no rule has the key.
var ErrNoRule = errors.New("no rule has this key")

// Set returns text with fields of the rule whose key is exactly key changed, added or
// removed. Without such a rule, it adds one: a new glob stands before the first glob that
// covers it, and other rules stand last. JSON stays JSON. The error joins a *dynamicconfig.Error for each
// mistake, with its place in the changed text.
func Set(text, key string, fields ...Field) (string, error) {
	return setAll(text, []string{key}, fields)
}

// setAll is Set for several rules, each of which gets the same fields.
func setAll(text string, keys []string, fields []Field) (string, error) {
	if err := checkFields(fields); err != nil {
		return "", err
	}
	if strings.TrimSpace(text) == "" {
		text = "limits: []\n"
	}
	old, err := dynamicconfig.Parse("limits", []byte(text))
	if err != nil {
		return "", err
	}
	rules, numbers := numbersOf(old, keys...)
	before := make(map[string]string)
	var needed []int
	for _, key := range keys {
		at, ok := numbers[key]
		if !ok {
			at, before[key] = placeFor(old, key)
		}
		needed = append(needed, at)
	}
	d, err := read(excerptOf(text, rules, needed))
	if err != nil {
		return "", err
	}
	for _, key := range keys {
		r, ok := d.rule(key)
		if !ok {
			stated := slices.DeleteFunc(slices.Clone(fields), func(f Field) bool { return f.Value == "" })
			d.add(before[key], append([]Field{{"key", key}}, stated...))
			continue
		}
		for _, f := range fields {
			d.set(r, f)
		}
	}
	return d.checked(old, keys...)
}

// checkFields returns why no rule can get fields.
func checkFields(fields []Field) error {
	known := dynamicconfig.RuleFields()
	for i, f := range fields {
		if f.Name == "key" || f.Name == "" {
			return fmt.Errorf("the field %q cannot be set: a rule with another key is another rule", f.Name)
		}
		if f.Value == "" && !slices.Contains(known, f.Name) { // a value would be refused at its place in the text
			return fmt.Errorf("there is no field %s to remove: %s", message.Quote(f.Name), message.Suggest(f.Name, known))
		}
		if slices.ContainsFunc(fields[:i], func(other Field) bool { return other.Name == f.Name }) {
			return fmt.Errorf("%s: the field is to be changed twice: give it one value, or remove it", f.Name)
		}
		if strings.ContainsAny(f.Value, "\n\r") {
			return fmt.Errorf("%s: the value has several lines: write one", f.Name)
		}
	}
	return nil
}

// numbersOf is how many rules s has, and the numbers of those with these keys.
func numbersOf(s *dynamicconfig.Snapshot, keys ...string) (rules int, numbers map[string]int) {
	wanted := make(map[string]bool, len(keys))
	for _, key := range keys {
		wanted[key] = true
	}
	numbers = make(map[string]int)
	for r := range s.Each() {
		if wanted[r.Key] {
			numbers[r.Key] = rules
		}
		rules++
	}
	return rules, numbers
}

// Remove returns text without the rule whose key is exactly key, and without the comment
// just above that rule. The error is ErrNoRule if there is none.
func Remove(text, key string) (string, error) {
	old, err := dynamicconfig.Parse("limits", []byte(text))
	if err != nil {
		return "", err
	}
	rules, numbers := numbersOf(old, key)
	number, ok := numbers[key]
	if !ok {
		return "", ErrNoRule
	}
	d, err := read(excerptOf(text, rules, []int{number}))
	if err != nil {
		return "", err
	}
	r, ok := d.rule(key)
	if !ok {
		return "", errLayout
	}
	d.remove(r)
	return d.checked(old, key)
}

// checked makes the changes. It returns the text if that means the same as old but for the
// rules of keys.
func (d *document) checked(old *dynamicconfig.Snapshot, keys ...string) (string, error) {
	text, err := d.apply()
	if err != nil {
		return "", err
	}
	s, err := dynamicconfig.Parse("limits", []byte(text))
	if err != nil {
		return "", err
	}
	meant := make(map[string]bool, len(keys))
	for _, key := range keys {
		meant[key] = true
	}
	for _, c := range dynamicconfig.Diff(old, s) {
		if c.Section != "limits" || !meant[c.Name] {
			return "", fmt.Errorf("%w (it would change more: %v)", errLayout, c)
		}
	}
	return text, nil
}

// placeFor is the number and the key of the rule before which a new rule with this key stands, or -1
// if it stands last.
func placeFor(s *dynamicconfig.Snapshot, key string) (number int, before string) {
	g, err := dynamicconfig.CompileGlob(key)
	if err != nil || !(&dynamicconfig.Rule{Key: key}).IsGlob() {
		return -1, "" // the check of the result says what is wrong
	}
	for r := range s.Each() {
		if r.IsGlob() {
			if wide, err := dynamicconfig.CompileGlob(r.Key); err == nil && wide.Covers(g) {
				return number, r.Key
			}
		}
		number++
	}
	return -1, ""
}
