// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// Bounds of what callers are answered.
const (
	// maxInteger is the largest number of a structured field (RFC 9651).
	maxInteger = 999_999_999_999_999
	// maxWindow is longer than the bucket of any rule takes to fill. A bucket that is
	// slower is this host's part of a limit, and has no rate now.
	maxWindow = 11 * 365 * 24 * time.Hour
	// maxRetry is the longest that a caller is asked to stay away.
	maxRetry = 24 * time.Hour
	// spread is the most that a random part adds to a time to come again.
	spread = 0.25
)

// RateLimit returns the fields RateLimit-Policy and RateLimit for a bucket, as
// in draft-ietf-httpapi-ratelimit-headers-10, of a policy "default": its quota
// is the burst, and its window how long the burst takes to fill. Both are those
// that p says for all hosts, if it is known: a host's part changes all the time,
// and is no limit that a client could keep to. What is left is left on this host.
// Both fields are empty where there is no bucket, or no limit. The state is empty too
// where this host's part of the limit has no rate now: under auto, the key's owner has
// the tokens.
func RateLimit(p Policy, limit, burst, left float64) (policy, state string) {
	if math.IsInf(limit, 1) || math.IsInf(burst, 1) || !(limit >= 0) || !(burst >= 0) || !p.Known && limit == 0 && burst == 0 && left == 0 {
		return "", ""
	}
	slow := NoRate(limit, burst)
	switch {
	case !p.Known && slow:
		return "", ""
	case !p.Known:
		p.Limit, p.Burst = limit, burst
	}
	var text [128]byte // both, so that they are one string
	q := strconv.AppendInt(append(text[:0], `"default";q=`...), whole(math.Floor(p.Burst)), 10)
	if p.Limit > 0 {
		q = strconv.AppendInt(append(q, ";w="...), max(whole(math.Ceil(p.Burst/p.Limit)), 1), 10)
	}
	if slow {
		return string(q), ""
	}
	both := strconv.AppendInt(append(q, `"default";r=`...), whole(math.Floor(left)), 10)
	if limit > 0 {
		both = strconv.AppendInt(append(both, ";t="...), whole(math.Ceil((burst-left)/limit)), 10)
	}
	fields := string(both)
	return fields[:len(q)], fields[len(q):]
}

// NoRate reports whether a bucket is this host's part of a limit, and has no rate now: what is
// left there says nothing about the next event.
func NoRate(limit, burst float64) bool { return limit > 0 && burst/limit > maxWindow.Seconds() }

// SetRateLimit sets the fields of RateLimit for the bucket of d, if there is one.
func SetRateLimit(h http.Header, d *Decision) {
	if policy, state := RateLimit(d.Policy, d.Limit, d.Burst, d.Left); policy != "" {
		values := []string{policy, state}
		h["Ratelimit-Policy"] = values[:1:1]
		if state != "" {
			h["Ratelimit"] = values[1:]
		}
	}
}

// whole is x as a structured field has it: negative numbers are 0 here.
func whole(x float64) int64 {
	if !(x > 0) {
		return 0
	}
	return int64(min(x, maxInteger))
}

// Later is after how long a caller is asked to come again, who could at the
// earliest after d: a random part longer, at most a quarter, so that callers
// do not come back together, and at most a day. random is in [0, 1). 0 and
// less, which is not known, is 0.
func Later(d time.Duration, random float64) time.Duration {
	if d <= 0 {
		return 0
	}
	d = min(d, maxRetry)
	return min(d+time.Duration(float64(d)*spread*random), maxRetry)
}

// Seconds is d as Retry-After has it: rounded up.
func Seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// Millis is d in milliseconds, rounded up, so that no caller comes too early.
func Millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
