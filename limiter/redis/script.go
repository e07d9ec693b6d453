// SPDX-License-Identifier: Apache-2.0

package redis

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/limiter/stage"
)

//go:embed bucket.lua
var body string

// bucket is the script, on Redis' own clock.
var bucket = newScript(`local time = redis.call('TIME')
local now, expires = tonumber(time[1]) * 1e6 + tonumber(time[2]), true
`)

// timed is the script on the caller's clock. Nothing expires, because Redis
// would expire it on its own clock.
var timed = newScript("local now, expires = tonumber(ARGV[9]), false\n")

// script is a Lua script. Redis knows it by hash once it has seen text.
type script struct{ text, hash string }

// newScript returns the script that begins with head, which sets now, in
// microseconds, and whether values expire.
func newScript(head string) script {
	return script{head + body, goredis.NewScript(head + body).Hash()}
}

const (
	maxTokens = 1 << 53 // above it, a double loses whole tokens
	maxRate   = 1e15
	maxWait   = 100 * 365 * 24 * time.Hour
)

// arguments are those of the script for op.
func arguments(op stage.Operation, keep time.Duration) []any {
	rate, burst := within(float64(op.Rule.Limit), maxRate), within(op.Rule.Burst, maxTokens)
	debt := within(rate*max(op.Rule.MaxDebt, 0).Seconds(), maxTokens)
	what, n := "take", within(op.N, maxTokens)
	switch op.Kind {
	case stage.ReturnTokens, stage.FillTokens:
		what = "give"
	case stage.ChargeTokens:
		what = "charge"
	}
	return []any{
		what, number(n), number(rate), number(burst), number(debt),
		number(min(max(op.Longest, 0), maxWait).Seconds()),
		number(-within(op.Rule.MostDebt(), maxTokens)),
		max(keep.Milliseconds(), 1),
	}
}

// within is x in [0, most]; NaN is 0.
func within(x, most float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, most)
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// read is the Outcome that the script's answer stands for. Anything may have
// answered, so an error is stage.ErrNonsense.
func read(answer any) (stage.Outcome, error) {
	values, _ := answer.([]any)
	if len(values) != 3 {
		return stage.Outcome{}, fmt.Errorf("%w: %s instead of three values", stage.ErrNonsense, described(answer))
	}
	ok, isFlag := values[0].(int64)
	micros, isTime := values[1].(int64)
	text, isText := values[2].(string)
	left, err := strconv.ParseFloat(text, 64)
	if !isFlag || !isTime || !isText || err != nil || math.IsNaN(left) || math.IsInf(left, 0) || micros < -1 {
		return stage.Outcome{}, fmt.Errorf("%w: %s, %s, %s instead of a flag, microseconds and tokens", stage.ErrNonsense, described(values[0]), described(values[1]), described(values[2]))
	}
	wait := time.Duration(min(max(micros, 0), math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
	if ok == 1 {
		return stage.Outcome{OK: true, Wait: wait, Left: left}, nil
	}
	return stage.Outcome{RetryAfter: wait, Left: left}, nil
}

// mostText is how many bytes of an answer an error has.
const mostText = 200

// described is an answer, or a part of one, for errors.
func described(answer any) string {
	switch a := answer.(type) {
	case int64, float64, bool, nil:
		return fmt.Sprint(a)
	case string:
		return strconv.Quote(a[:min(len(a), mostText)])
	case []any:
		return fmt.Sprintf("%d values", len(a))
	default:
		return fmt.Sprintf("a %T", a)
	}
}

// brief is the error of a call, whose text may be an answer's. It has the beginning of that.
type brief struct{ error }

// Error is the beginning of the text.
func (b brief) Error() string {
	text := b.error.Error()
	return text[:min(len(text), mostText)]
}

// Unwrap is the error with all its text.
func (b brief) Unwrap() error { return b.error }
