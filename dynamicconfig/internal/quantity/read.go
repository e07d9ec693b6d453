// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
)

// ParseLimit reads a limit as the config file writes it: events per second,
// minute, hour or day, `1000/s`, `5/m`, `1.5e3 / h`, `10000/d`. The result is events/s and
// may be anything that float64 holds: whether a limit is possible is for the
// caller to say.
func ParseLimit(text string) (rate.Limit, error) {
	limit, inFlight, err := ParseCapacity(text)
	if err == nil && inFlight {
		return 0, fmt.Errorf("%s limits what is in flight: write events per second here, as in 1000/s", message.Quote(text))
	}
	return limit, err
}

// ParseCapacity reads a limit as ParseLimit does, or slots: `100 in-flight`.
func ParseCapacity(text string) (amount rate.Limit, inFlight bool, err error) {
	if count, ok := strings.CutSuffix(text, "in-flight"); ok {
		n, err := ParseNumber(strings.TrimSpace(count))
		if err != nil {
			return 0, true, fmt.Errorf("%s has no number before in-flight: write it as in 100 in-flight", message.Quote(text))
		}
		return rate.Limit(n), true, nil
	}
	amount, err = parseRate(text)
	if slices.Contains(endless, strings.ToLower(text)) {
		return 0, false, fmt.Errorf("%s is no limit: write one, as in 1000/s, and enforce: 0%% beside it, which refuses nothing", message.Quote(text))
	}
	if err != nil && strings.Contains(text, "${") {
		err = fmt.Errorf("%s has a variable, which nothing fills in here: write the limit, or make the file with a tool such as envsubst", message.Quote(text))
	} else if err != nil && strings.Contains(text, ": ") {
		err = fmt.Errorf("%s has another field in it: put a comma before that, or write it in a line of its own", message.Quote(text))
	} else if err != nil {
		if meant := meantRate(text); meant != "" {
			err = fmt.Errorf("%s is not written as a limit: did you mean %s?", message.Quote(text), meant)
		}
	}
	return amount, false, err
}

// endless are words for a limit that there is not.
var endless = []string{"unlimited", "none", "no", "off", "inf", "infinite", "infinity", ".inf"}

func parseRate(text string) (rate.Limit, error) {
	count, unit, ok := strings.Cut(text, "/")
	if !ok {
		return 0, fmt.Errorf("%s has no unit: write events per second, minute, hour or day, as in 1000/s, 5/m or 100/h, or slots, as in 100 in-flight", message.Quote(text))
	}
	count, unit = strings.TrimSpace(count), strings.TrimSpace(unit)
	n, err := ParseNumber(count)
	if err != nil {
		return 0, fmt.Errorf("%s has no number before the /: write it as in 1000/s, 5/m or 100/h", message.Quote(text))
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
	return 0, fmt.Errorf("%s has the unit %s: use s, m, h or d, as in 1000/s, 5/m or 100/h", message.Quote(text), message.Quote(unit))
}

// ParsePercent reads `10%` as 0.1.
func ParsePercent(text string) (float64, error) {
	count, ok := strings.CutSuffix(text, "%")
	n, err := ParseNumber(strings.TrimSpace(count))
	if !ok || err != nil {
		if err == nil {
			return 0, fmt.Errorf("%s has no %%: write a percentage, as in 50%%", message.Quote(text))
		}
		return 0, fmt.Errorf("%s is not a percentage: write it as in 10%%", message.Quote(text))
	}
	return n / 100, nil
}

// ParseDuration reads a duration as time.ParseDuration does, and days too:
// `90s`, `1h30m`, `2d`, `1d12h`.
func ParseDuration(text string) (time.Duration, error) {
	if isNumber(text) && text != "0" {
		return 0, fmt.Errorf("%s has no unit: write it as in 500ms, 3s, 5m, 2h or 1d", message.Quote(text))
	}
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, errDuration(text)
		}
		return d, nil
	}
	n, err := ParseNumber(days)
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

func errDuration(text string) error {
	return fmt.Errorf("%s is not a duration: write it as in 500ms, 3s, 5m, 2h or 1d", message.Quote(text))
}

// ParseNumber reads a decimal number, with a fraction and an exponent if
// need be. Go's other forms (hexadecimal, underscores) are refused; NaN and
// Inf are read, for the caller to refuse by their own name.
func ParseNumber(text string) (float64, error) {
	if strings.ContainsAny(text, "xXpP_") {
		return 0, errors.New("not a decimal number")
	}
	f, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) {
		return f, nil // ±Inf, refused as such
	}
	if digits, _, _ := strings.Cut(strings.ToLower(text), "e"); err == nil && math.Abs(f) < tiny && strings.ContainsAny(digits, "123456789") {
		return math.Copysign(tiny, f), nil
	}
	return f, err
}

// tiny replaces a smaller number that is not 0. It is so large that tiny per day is more than 0 per
// second: a limit of 0 means something else.
const tiny = 1e-300

func isNumber(text string) bool {
	_, err := ParseNumber(text)
	return err == nil
}

// Finite reports whether f is a number, and not infinite.
func Finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
