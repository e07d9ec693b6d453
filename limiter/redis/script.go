// SPDX-License-Identifier: Apache-2.0

package redis

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

//go:embed bucket.lua
var body string

// clock reads the server's clock, in microseconds.
const clock = "local time = redis.call('TIME')\nlocal now = tonumber(time[1]) * 1e6 + tonumber(time[2])\n"

// bucket is the script that does everything. A server that does not know it
// yet is sent it once.
var bucket = goredis.NewScript(clock + body)

// set is a clock that who calls sets.
const set = "local now = tonumber(ARGV[8])\n"

// lasting has values never expire, which they do on the server's own clock.
const lasting = `local server = redis
local redis = {error_reply = server.error_reply, call = function(command, key, value)
	if value then
		return server.call(command, key, value)
	end
	return server.call(command, key)
end}
`

// timed is the script on the caller's clock.
var timed = goredis.NewScript(set + lasting + body)

const (
	maxTokens = 1 << 53 // above it, a double loses whole tokens
	maxRate   = 1e15
	maxWait   = 100 * 365 * 24 * time.Hour
)

// arguments are those of the script for t.
func arguments(t limiter.Take) [7]any {
	rate, burst := within(float64(t.Rule.Limit), maxRate), within(t.Rule.Burst, maxTokens)
	debt := within(rate*max(t.Rule.MaxDebt, 0).Seconds(), maxTokens)
	what, n := "take", within(t.N, maxTokens)
	switch {
	case t.N < 0:
		what, n = "give", within(-t.N, maxTokens)
	case t.Charge:
		what = "charge"
	}
	return [7]any{
		what, number(n), number(rate), number(burst), number(debt),
		number(min(max(t.Longest, 0), maxWait).Seconds()),
		number(-within(floor(t.Rule, burst, debt), maxTokens)),
	}
}

// floor is how deep what was used already may bring a bucket into debt. What
// was used while nobody answered is charged at once, and the bucket had been
// full after a while: without a floor, a long outage were followed by one as
// long.
func floor(rule *dynamicconfig.Rule, burst, debt float64) float64 {
	return max(burst, debt) + rule.Costliest()
}

// within is x in [0, most]; NaN is 0.
func within(x, most float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, most)
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// read makes what the script answered a Taken. Whatever is at the other end
// may answer anything.
func read(answer any) (taken limiter.Taken, err error) {
	values, ok := answer.([]any)
	if !ok || len(values) != 3 {
		return taken, fmt.Errorf("the script answers %T; that is three values", answer)
	}
	won, _ := values[0].(int64)
	micros, isTime := values[1].(int64)
	text, isText := values[2].(string)
	left, err := strconv.ParseFloat(text, 64)
	if !isTime || !isText || err != nil || math.IsNaN(left) || math.IsInf(left, 0) || micros < -1 {
		return taken, fmt.Errorf("the script answers %.100v; that is whether, when, and what is left", values)
	}
	taken.OK, taken.Left = won == 1, left
	wait := time.Duration(min(max(micros, 0), math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
	if taken.OK {
		taken.Wait = wait
	} else {
		taken.RetryAfter = wait
	}
	return taken, nil
}
