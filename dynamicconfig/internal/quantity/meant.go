// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"slices"
	"strings"
)

// meantRate is the limit that a text like 100rps or 10k/sec surely means; empty if it is not
// clear.
func meantRate(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	end := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789.", r) })
	if end <= 0 || !isNumber(text[:end]) {
		return ""
	}
	count, unit := text[:end], strings.TrimSpace(text[end:])
	switch strings.NewReplacer(" ", "", "-", "", "_", "").Replace(unit) {
	case "inflight", "slots", "slot", "concurrent", "parallel", "atonce":
		return count + " in-flight"
	}
	if rest, ok := strings.CutPrefix(unit, "k"); ok {
		count, unit = count+"e3", strings.TrimSpace(rest)
	}
	if rest, ok := strings.CutPrefix(unit, "m/"); ok {
		count, unit = count+"e6", strings.TrimSpace(rest)
	}
	unit = strings.Trim(strings.TrimPrefix(unit, "per"), "/ ")
	for written, names := range map[string][]string{
		"s": {"s", "sec", "secs", "second", "seconds", "rps", "qps", "tps", "ps", "hz", "r/s", "req/s", "requests/s"},
		"m": {"m", "min", "mins", "minute", "minutes", "rpm", "qpm", "r/m", "req/m", "requests/m"},
		"h": {"h", "hr", "hrs", "hour", "hours", "rph", "qph", "r/h", "req/h", "requests/h"},
		"d": {"d", "day", "days", "rpd", "qpd", "r/d", "req/d", "requests/d"},
	} {
		if slices.Contains(names, unit) {
			return count + "/" + written
		}
	}
	return ""
}
