// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
)

// ParseOverride reads what an override puts in force, as the config file writes it: a
// factor, `2x`, a limit, `500/s` or `20 in-flight`, or `bypass`. The other fields are zero.
// Whether the numbers are possible is for dynamicconfig.Config to say.
func ParseOverride(text string) (o Override, err error) {
	text = strings.TrimSpace(text)
	if text == Bypass {
		return Override{Bypass: true}, nil
	}
	if count, ok := strings.CutSuffix(text, "x"); ok {
		n, err := quantity.ParseNumber(strings.TrimSpace(count))
		if err != nil || !(n >= MinFactor && n <= MaxFactor) {
			return o, fmt.Errorf("%s is not a factor: use %s to %s, as in 2x or 0.5x", message.Quote(text), quantity.Number(MinFactor)+"x", quantity.Number(MaxFactor)+"x")
		}
		return Override{Factor: n}, nil
	}
	if meant := meantFactor(text); meant != "" {
		return o, fmt.Errorf("%s is not written as a factor: did you mean %s?", message.Quote(text), meant)
	}
	o.Limit, o.InFlight, err = quantity.ParseCapacity(text)
	if err != nil {
		return Override{}, fmt.Errorf("%w; or a factor, as in 2x, or %s", err, Bypass)
	}
	return o, nil
}

// meantFactor is the factor that a text like x2, 2× or 200% surely means; empty if it is not
// clear.
func meantFactor(text string) string {
	text = strings.NewReplacer("×", "x", "X", "x").Replace(text)
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		n, err := quantity.ParseNumber(percent)
		if strings.HasPrefix(percent, "+") || strings.HasPrefix(percent, "-") {
			n += 100 // so much more, or less
		}
		if err == nil && n/100 >= MinFactor && n/100 <= MaxFactor {
			return quantity.Number(n/100) + "x"
		}
	}
	for _, count := range []string{strings.TrimPrefix(text, "x"), strings.TrimSuffix(text, "x")} {
		if _, err := quantity.ParseNumber(count); err == nil && count != text {
			return count + "x"
		}
	}
	return ""
}
