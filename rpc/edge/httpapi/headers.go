// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// Bounds of what headers say.
const (
	// maxInteger is the largest number of a structured field (RFC 9651).
	maxInteger = 999_999_999_999_999
	// maxRetry is the longest that a caller is told to stay away.
	maxRetry = 24 * time.Hour
	// spread is the most that a random part adds to Retry-After.
	spread = 0.25
)

// setRateLimit sets RateLimit-Policy and RateLimit for a bucket, if there is
// one.
func setRateLimit(h http.Header, limit, burst, left float64) {
	if math.IsInf(limit, 1) || math.IsInf(burst, 1) || !(limit >= 0) || !(burst >= 0) || limit == 0 && burst == 0 && left == 0 {
		return
	}
	policy := strconv.AppendInt([]byte(`"default";q=`), whole(math.Floor(burst)), 10)
	remaining := strconv.AppendInt([]byte(`"default";r=`), whole(math.Floor(left)), 10)
	if limit > 0 {
		policy = strconv.AppendInt(append(policy, ";w="...), max(whole(math.Ceil(burst/limit)), 1), 10)
		remaining = strconv.AppendInt(append(remaining, ";t="...), whole(math.Ceil((burst-left)/limit)), 10)
	}
	h["Ratelimit-Policy"] = []string{string(policy)}
	h["Ratelimit"] = []string{string(remaining)}
}

// whole is x as a structured field has it: negative numbers are 0 here.
func whole(x float64) int64 {
	if !(x > 0) {
		return 0
	}
	return int64(min(x, maxInteger))
}

// retryAfter is d and a random part more of it, up to maxRetry; 0 stays 0.
func (a *API) retryAfter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	d = min(d, maxRetry)
	return min(d+time.Duration(float64(d)*spread*a.random()), maxRetry)
}

// setRetryAfter sets Retry-After, in whole seconds, rounded up.
func setRetryAfter(h http.Header, d time.Duration) {
	if d > 0 {
		h["Retry-After"] = []string{strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)}
	}
}

// millis is d in milliseconds, rounded up, so that nobody comes too early.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
