// SPDX-License-Identifier: Apache-2.0

package build

import (
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Mark is a place in a text; the zero Mark is nowhere.
type Mark = strictyaml.Mark

// Content is what a configuration says, defaults filled in.
type Content struct {
	Properties    rule.Properties
	Rules         []*rule.Rule
	Places        []Mark   // of the rules' keys
	Runs          []Placed // all rules, and all uses of algorithms
	Keys          *Keys
	Unmatched     rule.Unmatched
	UnmatchedRule *rule.Rule // nil without one
	Overrides     []rule.Override
	Values        map[string]Value
	Private       bool // keys without a rule are

	base *Entry // the defaults; nil if Runs had others
}

// Value is one scalar: a string, bool, int64, float64 or time.Duration.
type Value struct {
	V  any
	At Mark
}

// Use is one mention of an algorithm.
type Use struct {
	Algorithm string
	Who       string // "rule ..."; for messages without a place
	At        Mark

	Parameters   map[string]string // that reach it
	ParametersAt Mark
}
