// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
)

// events finds what is counted, in front of a unit.
var events = regexp.MustCompile(`^(r|reqs?|requests?|events?|calls?|hits?|tokens?)( *\/| +per )`)

// thousands finds a digit, and three more behind a separator.
var thousands = regexp.MustCompile(`^(\d+)[,_' ](\d{3}(?:\D|$))`)

// meantRate is the limit that a text like 100rps or 10k/sec surely means; empty if it is not
// clear.
func meantRate(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	for thousands.MatchString(text) {
		text = thousands.ReplaceAllString(text, "$1$2")
	}
	end := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789.", r) })
	if end <= 0 || !isNumber(text[:end]) {
		return ""
	}
	count, unit := text[:end], strings.TrimSpace(text[end:])
	switch strings.NewReplacer(" ", "", "-", "", "_", "").Replace(unit) {
	case "inflight", "slots", "slot", "concurrent", "parallel", "atonce":
		return count + " in-flight"
	}
	count, unit = factor(count, unit)
	unit = strings.Trim(strings.TrimPrefix(events.ReplaceAllString(unit, ""), "per"), "/ ")
	every := ""
	if end := strings.IndexFunc(unit, func(r rune) bool { return r < '0' || r > '9' }); end > 0 {
		every, unit = unit[:end], strings.TrimSpace(unit[end:])
	}
	for written, names := range map[string][]string{
		"ms": {"ms", "millis", "milliseconds"},
		"s":  {"s", "sec", "secs", "second", "seconds", "rps", "qps", "tps", "ps", "hz"},
		"m":  {"m", "min", "mins", "minute", "minutes", "rpm", "qpm"},
		"h":  {"h", "hr", "hrs", "hour", "hours", "rph", "qph"},
		"d":  {"d", "day", "days", "rpd", "qpd"},
	} {
		if slices.Contains(names, unit) {
			return divided(count, every, written)
		}
	}
	return ""
}

// factor writes thousands, millions and billions in front of a unit as an exponent of count.
func factor(count, unit string) (string, string) {
	for _, f := range []struct{ name, exponent string }{{"kb/", "e3"}, {"mb/", "e6"}, {"gb/", "e9"}, {"m/", "e6"}, {"g/", "e9"}} {
		if rest, ok := strings.CutPrefix(unit, f.name); ok {
			return count + f.exponent, strings.TrimSpace(rest)
		}
	}
	if rest, ok := strings.CutPrefix(unit, "k"); ok {
		return count + "e3", strings.TrimSpace(rest)
	}
	return count, unit
}

// divided is the limit of count events in every so many units, in the first unit, from that one
// on, in which it is a whole number; empty if it is in none.
func divided(count, every, unit string) string {
	if every == "" && unit != "ms" {
		return count + "/" + unit
	}
	n, err := ParseNumber(count)
	times, errTimes := ParseNumber(cmp.Or(every, "1"))
	if err != nil || errTimes != nil || times == 0 {
		return ""
	}
	const all = "smhd"
	if unit == "ms" {
		n, unit = n*1000, "s"
	}
	for i := strings.Index(all, unit); i < len(all); i++ {
		if each := n / times; each == math.Trunc(each) && each >= 1 {
			return Number(each) + "/" + all[i:i+1]
		}
		n *= []float64{60, 60, 24, 1}[i]
	}
	return ""
}
