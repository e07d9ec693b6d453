// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import "github.com/headgate/headgate/dynamicconfig/rule"

// These types are those of package rule.
type (
	// Rule says what a key's limit is and how it is shared.
	Rule = rule.Rule
	// Migration moves a key from one algorithm to another while traffic flows.
	Migration = rule.Migration
	// Mode is the migration stage of a key.
	Mode = rule.Mode
	// Fallback rules a key while a host has no valid grant for it.
	Fallback = rule.Fallback
	// Unmatched says what happens to a key that no rule matches.
	Unmatched = rule.Unmatched
	// Override changes the limit of a rule, of one key or of all rules until a time.
	Override = rule.Override
	// Properties are the cluster-wide settings that are not about one key.
	Properties = rule.Properties
	// Traits are what hosts and rules must know of an algorithm that shares a limit.
	Traits = rule.Traits
)

// None and Soft are what a Rule says in place of a number.
const (
	None = rule.None
	Soft = rule.Soft
)

// The modes of a Migration.
const (
	ModeDisabled     = rule.ModeDisabled
	ModeOld          = rule.ModeOld
	ModeOldShadowNew = rule.ModeOldShadowNew
	ModeNewShadowOld = rule.ModeNewShadowOld
	ModeNew          = rule.ModeNew
)

// The fallbacks of a Rule.
const (
	FallbackEven   = rule.FallbackEven
	FallbackOpen   = rule.FallbackOpen
	FallbackClosed = rule.FallbackClosed
	FallbackSafe   = rule.FallbackSafe
)

// What happens to a key that no rule matches.
const (
	UnmatchedAllow = rule.UnmatchedAllow
	UnmatchedDeny  = rule.UnmatchedDeny
	UnmatchedRule  = rule.UnmatchedRule
)

// TraitsOf are the Traits of an algorithm, as rule.TraitsOf has them.
func TraitsOf(algorithm string) (Traits, bool) { return rule.TraitsOf(algorithm) }

// Measured is how hosts and owners name an algorithm that is only measured.
func Measured(algorithm string) string { return rule.Measured(algorithm) }

// Plain is the algorithm that is named, and whether it is only measured.
func Plain(name string) (algorithm string, measured bool) { return rule.Plain(name) }

// SaltKeys has all Shown of this process hash with salt, which is secret. With the
// same salt on all hosts of a cluster, a key looks the same in all their logs.
// Without SaltKeys, each process has a random salt. Call it before keys are shown.
func SaltKeys(salt []byte) { rule.SaltKeys(salt) }
