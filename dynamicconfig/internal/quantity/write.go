// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Number writes f the shortest way that reads back as f.
func Number(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	s = strings.Replace(s, "e+0", "e", 1)
	s = strings.Replace(s, "e+", "e", 1)
	return strings.Replace(s, "e-0", "e-", 1)
}

// Rounded writes a limit in events/s, or slots in flight, as people do, such as "100/s", "5/m" or
// "20 in-flight".
func Rounded(l rate.Limit, inFlight bool) string {
	if !inFlight {
		for _, unit := range units {
			if n := math.Round(float64(l) * unit.seconds); n >= 1 && math.Abs(n-float64(l)*unit.seconds) < 1e-9*n {
				return strconv.FormatFloat(n, 'f', -1, 64) + unit.name
			}
		}
	}
	return Amount(l, inFlight)
}

// Amount writes a limit in events/s, or slots in flight, such that ParseCapacity reads back the same.
func Amount(l rate.Limit, inFlight bool) string {
	if inFlight {
		return Number(float64(l)) + " in-flight"
	}
	return limit(l)
}

// Unit is what a limit counts.
func Unit(inFlight bool) string {
	if inFlight {
		return "slots"
	}
	return "events/s"
}

// units are the times that a limit may be per.
var units = []struct {
	name    string
	seconds float64
}{{"/s", 1}, {"/m", 60}, {"/h", 3600}, {"/d", 86400}}

// limit writes a limit per second, or, if it is below 1/s or that takes many digits, per minute, hour
// or day where that is shorter and reads back as the same: 5/m.
func limit(l rate.Limit) string {
	const many = 8
	text := Number(float64(l)) + "/s"
	for _, unit := range units[1:] {
		other := Number(math.Round(float64(l)*unit.seconds*1e6)/1e6) + unit.name
		if got, err := parseRate(other); (l < 1 || len(text) > many) && len(other) < len(text) && err == nil && got == l {
			text = other
		}
	}
	return text
}

// Percent writes a part the shortest way that reads back as the same, if
// there is one.
func Percent(part float64) string {
	text := ""
	for digits := 1; digits <= 17; digits++ {
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(part*100, 'g', digits, 64), 64)
		text = Number(rounded) + "%"
		if got, err := ParsePercent(text); err == nil && got == part {
			break
		}
	}
	return text
}

// Duration writes d as time.Duration does, in days where it is whole days.
func Duration(d time.Duration) string {
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
