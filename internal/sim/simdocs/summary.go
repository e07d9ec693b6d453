// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/headgate/headgate/internal/sim/world"
)

// short are the figures that people choose an algorithm by.
var short = []cell{
	{"steady-skew", "utilisation %", 0, utilisation, fromWhole},
	{"moving-hotspot", "settle s", 0, settle, nil},
	{"burst-on-few", "false rejects %", 1, falseReject, nil},
	{"flash-crowd", "over %", 0, over, nil},
	{"owner-crash", "over %", 0, over, nil},
	{"steady-skew", "calls /host/s", 2, calls, nil},
}

// summary is the short table at the top, as Markdown.
func summary(ctx context.Context, seeds int, chosen func(algorithm string) bool) (string, error) {
	t := newFigures("worst of all seeds", short)
	for _, a := range []string{"even", "drop-ratio", "request-weighted", "request-weighted-even-floor", "elastic", "gossip", "exact", "auto"} {
		if !chosen(a) {
			continue
		}
		if err := t.add(ctx, "`"+a+"`", seeds, world.Options{Algorithm: a}); err != nil {
			return "", err
		}
	}
	return t.String(), nil
}
