// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
)

// ParseLimit reads a limit as the config file writes it: events per second,
// minute, hour or day, `1000/s`, `5/m`, `1.5e3 / h`, `10000/d`. The result is events/s and
// may be anything that float64 holds: whether a limit is possible is for
// Config to say.
func ParseLimit(text string) (rate.Limit, error) {
	limit, inFlight, err := parseCapacity(text)
	if err == nil && inFlight {
		return 0, fmt.Errorf("%s limits what is in flight: write events per second here, as in 1000/s", quote(text))
	}
	return limit, err
}

// parseCapacity reads a limit as ParseLimit does, or slots: `100 in-flight`.
func parseCapacity(text string) (amount rate.Limit, inFlight bool, err error) {
	if count, ok := strings.CutSuffix(text, "in-flight"); ok {
		n, err := parseNumber(strings.TrimSpace(count))
		if err != nil {
			return 0, true, fmt.Errorf("%s has no number before in-flight: write it as in 100 in-flight", quote(text))
		}
		return rate.Limit(n), true, nil
	}
	amount, err = parseRate(text)
	if slices.Contains(endless, strings.ToLower(text)) {
		return 0, false, fmt.Errorf("%s is no limit: write one, as in 1000/s, and enforce: 0%% beside it, which refuses nothing", quote(text))
	}
	if err != nil {
		if meant := meantRate(text); meant != "" {
			err = fmt.Errorf("%s is not written as a limit: did you mean %s?", quote(text), meant)
		}
	}
	return amount, false, err
}

// endless are words for a limit that there is not.
var endless = []string{"unlimited", "none", "no", "off", "inf", "infinite", "infinity", ".inf"}

func parseRate(text string) (rate.Limit, error) {
	count, unit, ok := strings.Cut(text, "/")
	if !ok {
		return 0, fmt.Errorf("%s has no unit: write events per second, minute, hour or day, as in 1000/s, 5/m or 100/h, or slots, as in 100 in-flight", quote(text))
	}
	count, unit = strings.TrimSpace(count), strings.TrimSpace(unit)
	n, err := parseNumber(count)
	if err != nil {
		return 0, fmt.Errorf("%s has no number before the /: write it as in 1000/s, 5/m or 100/h", quote(text))
	}
	switch unit {
	case "s":
		return rate.Limit(n), nil
	case "m":
		return rate.Limit(n / 60), nil
	case "h":
		return rate.Limit(n / 3600), nil
	case "d":
		return rate.Limit(n / 86400), nil
	}
	return 0, fmt.Errorf("%s has the unit %s: use s, m, h or d, as in 1000/s, 5/m or 100/h", quote(text), quote(unit))
}

// parsePercent reads `10%` as 0.1.
func parsePercent(text string) (float64, error) {
	count, ok := strings.CutSuffix(text, "%")
	n, err := parseNumber(strings.TrimSpace(count))
	if !ok || err != nil {
		if err == nil {
			return 0, fmt.Errorf("%s has no %%: write a percentage, as in 50%%", quote(text))
		}
		return 0, fmt.Errorf("%s is not a percentage: write it as in 10%%", quote(text))
	}
	return n / 100, nil
}

// parseOrSoft reads a part in percent, and 0% as Soft.
func parseOrSoft(text string) (float64, error) {
	part, err := parsePercent(text)
	switch {
	case err != nil:
		return 0, err
	case part < 0:
		return 0, fmt.Errorf("%s is below 0: write 0%% for none", quote(text))
	case part == 0:
		return Soft, nil
	}
	return part, nil
}

// ParseDuration reads a duration as time.ParseDuration does, and days too:
// `90s`, `1h30m`, `2d`, `1d12h`.
func ParseDuration(text string) (time.Duration, error) {
	if isNumber(text) && text != "0" {
		return 0, fmt.Errorf("%s has no unit: write it as in 500ms, 3s, 5m, 2h or 1d", quote(text))
	}
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, errDuration(text)
		}
		return d, nil
	}
	n, err := parseNumber(days)
	if err != nil {
		return 0, errDuration(text)
	}
	sum := n * float64(24*time.Hour)
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return 0, errDuration(text)
		}
		sum += float64(d)
	}
	if math.IsNaN(sum) || math.Abs(sum) >= math.MaxInt64 {
		return 0, errDuration(text)
	}
	return time.Duration(sum), nil
}

// parseOrNone reads a duration, and 0 as None.
func parseOrNone(text string) (time.Duration, error) {
	d, err := ParseDuration(text)
	switch {
	case err != nil:
		return 0, err
	case d < 0:
		return 0, fmt.Errorf("%s is below 0: write 0s for none", quote(text))
	case d == 0:
		return None, nil
	}
	return d, nil
}

func errDuration(text string) error {
	return fmt.Errorf("%s is not a duration: write it as in 500ms, 3s, 5m, 2h or 1d", quote(text))
}

func parseNumber(text string) (float64, error) { return strictyaml.ParseNumber(text) }

func isNumber(text string) bool {
	_, err := parseNumber(text)
	return err == nil
}

func number(f float64) string { return strictyaml.Number(f) }

// duration writes d as time.Duration does, in days where it is whole days.
func duration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}
