// SPDX-License-Identifier: Apache-2.0

// Package remedy says what to do about the name of an algorithm that is not known. It knows
// those that headgate has, and not which are registered.
package remedy

import (
	"slices"
	"strings"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/spelling"
)

// Of is what to do about an algorithm that known does not know.
func Of(algorithm string, known func(name string) bool) string {
	if algorithm == "redis" {
		return "name the server, with headgate serve --redis or headgate.WithRemote; for headgate limits without a daemon, add --also redis"
	}
	if account, weigher, pair := strings.Cut(algorithm, "/"); pair {
		return ofPair(account, weigher, known)
	}
	text := "register your own with headgate.WithAlgorithm; for headgate limits without a daemon, name it with --also"
	names := rule.BuiltIn()
	names = slices.DeleteFunc(names, func(name string) bool { return !known(name) })
	if len(names) == 0 {
		return text
	}
	if near := spelling.Nearest(algorithm, names); near != "" {
		return "did you mean " + near + "? Else " + text
	}
	return "use " + message.OneOf(names) + ", or " + text
}

// ofPair is Of for a weigher on an account.
func ofPair(account, weigher string, known func(name string) bool) string {
	if all := rule.Accounts(); !slices.Contains(all, account) {
		return "no account is called " + message.Quote(account) + ": " + message.Suggest(account, all)
	}
	names := rule.BuiltIn()
	names = slices.DeleteFunc(names, func(name string) bool { return !known(account + "/" + name) })
	suggestion := message.Suggest(weigher, names)
	if !strings.HasSuffix(suggestion, "?") {
		suggestion += "."
	}
	return account + " has no weigher " + message.Quote(weigher) + ": " + suggestion +
		" Or register your own with headgate.WithAlgorithm; for headgate limits without a daemon, name it with --also"
}
