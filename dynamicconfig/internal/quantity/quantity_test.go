// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"strings"
	"testing"
	"time"
)

func TestLimitsThatLookLikeOnesAreUnderstood(t *testing.T) {
	for text, want := range map[string]string{
		"100rps":         "100/s",
		"100 req/s":      "100/s",
		"5 per minute":   "5/m",
		"10k/s":          "10e3/s",
		"2.5 / hour":     "2.5/h",
		"100/sec":        "100/s",
		"1kqps":          "1e3/s",
		"1M/s":           "1e6/s",
		"10000/day":      "10000/d",
		"500 per day":    "500/d",
		"10 req/sec":     "10/s",
		"5 calls per h":  "5/h",
		"3 tokens / day": "3/d",
		"1000/100ms":     "10000/s",
		"10/ms":          "10000/s",
		"100/5m":         "20/m",
		"10/1s":          "10/s",
		"1 / 10 sec":     "6/m",
		"100 per 15 min": "400/h",
		"1/48h":          "",
		"1/0s":           "",
		"1,000/s":        "1000/s",
		"1_000_000/m":    "1000000/m",
		"1,5/s":          "",
		"1,0000/s":       "",
		"10kb/s":         "10e3/s",
		"1.5 MB/s":       "1.5e6/s",
		"2G/s":           "2e9/s",
		"100":            "",
		"100/fortnight":  "",
		"many/s":         "",
		"1.2.3rps":       "",
		"100 rps please": "",
	} {
		_, err := ParseLimit(text)
		if err == nil || want != "" && !strings.HasSuffix(err.Error(), "is not written as a limit: did you mean "+want+"?") || want == "" && strings.Contains(err.Error(), "mean") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if _, err := ParseLimit(want); want != "" && err != nil {
			t.Errorf("%s is advised for %s: %v", want, text, err)
		}
	}
}

func TestParseDurationKnowsDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"3s": 3 * time.Second, "1d": 24 * time.Hour, "1.5d": 36 * time.Hour, "2d12h30m": 60*time.Hour + 30*time.Minute,
		"0": 0, "-5s": -5 * time.Second, "1h0m": time.Hour,
	} {
		if got, err := ParseDuration(text); got != want || err != nil {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "d", "1d-5h", "NaNd", "infd", "1e300d", "1x", "1d1d", "0x1d"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v", text, got)
		}
	}
}

func TestPercentagesReadBack(t *testing.T) {
	for text, want := range map[string]string{"7%": "7%", "0%": "0%", "12.5%": "12.5%", "0.1 %": "0.1%", "100%": "100%"} {
		part, err := ParsePercent(text)
		if got := Percent(part); err != nil || got != want {
			t.Errorf("%s is written %s, want %s (%v)", text, got, want, err)
		}
	}
}

func TestNumbersAreWrittenAsPeopleWriteThem(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 2e6: "2e6", 1e12: "1e12", 123456: "123456", 0.25: "0.25", 1e-9: "1e-9", 1.5e-10: "1.5e-10", -3e7: "-3e7", 1e100: "1e100"} {
		got := Number(n)
		if back, err := ParseNumber(got); got != want || err != nil || back != n {
			t.Errorf("%v is written %s, want %s (%v)", n, got, want, err)
		}
	}
}

// A limit that was written per minute, hour or day is shown so, and not as a part of an event: 3/d, not 0.125/h.
func TestLimitsBelowOneAreWrittenInWholeEvents(t *testing.T) {
	for text, want := range map[string]string{
		"3/m": "3/m", "3/d": "3/d", "90/h": "90/h", "0.1/s": "6/m", "60/h": "1/m", "7/m": "7/m", "100/h": "100/h",
		"2.5/s": "2.5/s", "60/m": "1/s", "90000/m": "1500/s", "500/m": "500/m", "0/s": "0/s",
	} {
		l, err := ParseLimit(text)
		if got := Amount(l, false); err != nil || got != want {
			t.Errorf("%s is written %s, want %s (%v)", text, got, want, err)
		}
		if back, err := ParseLimit(want); err != nil || back != l {
			t.Errorf("%s is written %s, which is %v: %v", text, want, back, err)
		}
	}
}

// A limit that is too small for a float64 is not 0, which allows nothing: it is refused, as other limits that are too low are.
func TestANumberThatIsTooSmallIsNotZero(t *testing.T) {
	for text, positive := range map[string]bool{"1e-320/d": true, "1e-400/s": true, "0.0001E-999/h": true, "0/s": false, "0e-999/s": false, "0.00/m": false} {
		if got, err := ParseLimit(text); err != nil || got > 0 != positive {
			t.Errorf("%s is read as %v: %v", text, got, err)
		}
	}
}
