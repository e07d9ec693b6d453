// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"log/slog"

	"github.com/headgate/headgate/dynamicconfig"
)

// Named returns the pattern of the first rule of limits whose keys share what the cluster above
// leases; false if no rule's keys do.
func Named(limits *dynamicconfig.Snapshot) (key string, ok bool) {
	for rule := range limits.Each() {
		if rule.Parent {
			return rule.Key, true
		}
	}
	return "", false
}

// WarnOfNone logs, for a host that asks no cluster above, that a rule of limits names one.
func WarnOfNone(limits *dynamicconfig.Snapshot, log *slog.Logger) {
	if key, ok := Named(limits); ok {
		log.Warn("a rule says `parent: true`, but there is no cluster above: its keys have nothing but their fallback; say where that cluster is (--parent, or headgate.WithParent), or remove `parent`",
			"rule", key)
	}
}
