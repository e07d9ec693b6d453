// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"fmt"
	"math"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/limiter/redis/redistest"
	"github.com/headgate/headgate/limiter/stage"
)

// expiring is the script on the test's clock, except that values expire on
// Redis' own.
var expiring = newScript("local now, expires = tonumber(ARGV[9]), true\n")

// epoch is when tests begin, in microseconds.
const epoch int64 = 1_800_000_000_000_000

// run runs the script for op, so long after epoch.
func run(t testing.TB, c *goredis.Client, now time.Duration, op stage.Operation) stage.Outcome {
	t.Helper()
	return runScript(t, timed, c, now, op, DefaultKeep)
}

func runScript(t testing.TB, s script, c *goredis.Client, now time.Duration, op stage.Operation, keep time.Duration) stage.Outcome {
	t.Helper()
	outcome, err := read(evaluate(t, s, c, op.Key, append(arguments(op, keep), epoch+now.Microseconds())...))
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// evaluate is what s answers about the bucket called name.
func evaluate(t testing.TB, s script, c *goredis.Client, name string, args ...any) any {
	t.Helper()
	answer, err := c.EvalSha(t.Context(), s.hash, []string{name}, args...).Result()
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		answer, err = c.Eval(t.Context(), s.text, []string{name}, args...).Result()
	}
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// ruleOf is the rule of a Bucket that decides as the script does.
func ruleOf(r *dynamicconfig.Rule) exactbucket.Rule {
	return exactbucket.Rule{
		Rate:    float64(r.Limit),
		Burst:   r.Burst,
		MaxDebt: r.MaxDebt,
		MaxCost: r.Costliest(),
	}
}

// The script does what an exactbucket.Bucket does, which is compared with exact
// fractions.
func TestTheScriptIsABucket(t *testing.T) {
	c := redistest.Start(t).Client()
	traces := 0
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string) *dynamicconfig.Rule {
			r := &dynamicconfig.Rule{
				Limit: rate.Limit(math.Pow(10, rapid.Float64Range(-7, 12).Draw(rt, name+" log10 limit"))),
				Burst: math.Floor(math.Pow(10, rapid.Float64Range(0, 12).Draw(rt, name+" log10 burst"))),
			}
			if rapid.Bool().Draw(rt, name+" debt") {
				r.MaxDebt = time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(rt, name+" max debt"))
				r.MaxCost = r.Burst * 3
			}
			return r
		}
		rule := draw("first")
		traces++
		key := fmt.Sprint("k", traces)
		bucket := exactbucket.New(0, ruleOf(rule))
		now := time.Duration(0)
		for i := range rapid.IntRange(1, 40).Draw(rt, "calls") {
			now += time.Duration(rapid.Float64Range(0, 2).Draw(rt, "tokens")*1e6/float64(min(rule.Limit, 1e6))) * time.Microsecond
			now = min(now, 1e17)
			take := stage.Operation{Key: key, Rule: rule, Longest: -1}
			take.N = math.Floor(rule.Burst * math.Pow(rapid.Float64Range(0, 1.1).Draw(rt, "part"), 4))
			take.Longest = time.Duration(rapid.Int64Range(0, 3_000_000).Draw(rt, "longest")) * time.Microsecond
			level := bucket.Level(now)
			// Where arithmetic may go either way, the trace ends.
			slack := 1e-7 + 1e-12*(rule.Burst+math.Abs(level)+take.N) + 1e-6*float64(rule.Limit)
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				take.Kind = stage.ChargeTokens
				bucket.Charge(now, take.N, -rule.MostDebt())
			case 1:
				take.Kind = stage.ReturnTokens
				bucket.Give(now, take.N)
			default:
				want := bucket.Take(now, take.N, take.Longest)
				got := run(t, c, now, take)
				if got.OK != want.OK {
					short := take.N - level
					if rule.MaxDebt > 0 {
						short = -level
						if math.Abs(take.N-level-float64(rule.Limit)*rule.MaxDebt.Seconds()) < slack {
							return
						}
					}
					if math.Abs(short-float64(rule.Limit)*take.Longest.Seconds()) < slack {
						return
					}
					rt.Fatalf("call %d: %v, want %v; %v of %v tokens, limit %v, longest %v", i, got, want, take.N, level, rule.Limit, take.Longest)
				}
				wait, retry := want.Wait, want.Retry
				if retry == exactbucket.Never || retry > 1<<53*time.Microsecond || retry < 0 {
					retry = 0
				}
				close := func(a, b time.Duration) bool {
					return math.Abs(float64(a-b)) <= 2e3+slack/float64(rule.Limit)*1e9+1e-9*float64(b)
				}
				if !close(got.Wait, wait) || retry < 1<<62 && !close(got.RetryAfter, retry) {
					rt.Fatalf("call %d: %+v, want %+v; level %v, limit %v", i, got, want, level, rule.Limit)
				}
				if math.Abs(got.Left-bucket.Level(now)) > slack {
					rt.Fatalf("call %d: %v tokens left, want %v", i, got.Left, bucket.Level(now))
				}
				continue
			}
			if got := run(t, c, now, take); !got.OK || math.Abs(got.Left-bucket.Level(now)) > slack {
				rt.Fatalf("call %d: %+v after %+v, want %v left", i, got, take, bucket.Level(now))
			}
		}
	})
}

func TestNoPartOfATokenIsLost(t *testing.T) {
	c := redistest.Start(t).Client()
	for _, tt := range []struct {
		limit float64
		gap   time.Duration
	}{{10, 7 * time.Millisecond}, {3, 11 * time.Millisecond}, {999_983, time.Microsecond}, {0.01, time.Second}} {
		rule := &dynamicconfig.Rule{Limit: rate.Limit(tt.limit), Burst: 5}
		key, taken, now := fmt.Sprint(tt.limit), 0, time.Duration(0)
		for range 5000 {
			if run(t, c, now, stage.Operation{Key: key, Rule: rule, N: 1}).OK {
				taken++
			}
			now += tt.gap
		}
		ideal := tt.limit*(now-tt.gap).Seconds() + 5
		if float64(taken) > ideal+1e-6 || float64(taken) < math.Floor(min(ideal, 5000)) {
			t.Errorf("limit %v: took %d, ideal %v", tt.limit, taken, ideal)
		}
	}
}

func TestAChangeOfRuleKeepsTheTokens(t *testing.T) {
	c := redistest.Start(t).Client()
	rule := func(limit, burst float64) *dynamicconfig.Rule {
		return &dynamicconfig.Rule{Limit: rate.Limit(limit), Burst: burst}
	}
	second := time.Second
	for i, step := range []struct {
		at   time.Duration
		rule *dynamicconfig.Rule
		n    float64
		left float64
		ok   bool
	}{
		{0, rule(10, 100), 100, 0, true},
		{second, rule(10, 100), 4, 6, true},
		{second, rule(1000, 100), 0, 6, true},               // faster, and no fuller
		{second + second/100, rule(1000, 100), 0, 16, true}, // ten tokens in 10 ms
		{second + second/100, rule(1000, 8), 1, 7, true},    // there is no more room
		{second + second/100, rule(1000, 500), 0, 7, true},
		{second + second/100, rule(1, 500), 7, 0, true},
		{3601 * second, rule(1e6, 1e6), 500, 0, true}, // the slower counts: it had filled at one a second, to its burst
		{3601*second + second/100, rule(1e6, 1e6), 0, 10000, true},
	} {
		got := run(t, c, step.at, stage.Operation{Key: "k", Rule: step.rule, N: step.n})
		if got.OK != step.ok || math.Abs(got.Left-step.left) > 0.02 {
			t.Errorf("step %d: %+v, want %v with %v left", i, got, step.ok, step.left)
		}
	}
}

// A debt that was made under a higher limit, a deeper max_debt or a larger burst does
// not close the key for longer under a lower one. The script follows the rule as an
// exactbucket.Bucket does.
func TestADebtFollowsALowerLimit(t *testing.T) {
	c := redistest.Start(t).Client()
	rule := func(limit, burst float64, debt time.Duration) *dynamicconfig.Rule {
		return &dynamicconfig.Rule{Limit: rate.Limit(limit), Burst: burst, MaxDebt: debt}
	}
	for i, tt := range []struct {
		before, after *dynamicconfig.Rule
		charge, left  float64
	}{
		{rule(1000, 100, time.Minute), rule(10, 100, time.Minute), 1e6, -800},     // not deeper than a charge makes it now
		{rule(1000, 100, time.Minute), rule(500, 100, time.Second), 1e6, -30_100}, // in proportion
		{rule(1000, 100, time.Minute), rule(10, 100, 0), 1e6, -602},               // likewise, and max_debt is off
		{rule(1000, 100, time.Minute), rule(10, 100, time.Minute), 300, -200},     // a charge could leave that still
		{rule(10, 100_000, 0), rule(10, 100, 0), 1e6, -200},                       // a smaller burst
		{rule(10, 100, time.Minute), rule(1000, 100, 0), 1e6, -800},               // a higher limit pays it sooner
		{rule(10, 100, time.Minute), rule(10, 100, 0), 1e6, -800},                 // max_debt alone is about later debts
		{rule(1000, 100, time.Minute), rule(0, 100, time.Minute), 1e6, -60_200},   // never to be paid in any case
		{rule(0, 100, time.Minute), rule(0, 50, time.Minute), 1000, -200},         // likewise
		{rule(1000, 100, 0), rule(10, 100, 0), 50, 50},                            // no debt
	} {
		key := fmt.Sprint("k", i)
		run(t, c, 0, stage.Operation{Kind: stage.ChargeTokens, Key: key, Rule: tt.before, N: tt.charge})
		bucket := exactbucket.New(0, ruleOf(tt.before))
		bucket.Charge(0, tt.charge, -tt.before.MostDebt())
		bucket.Follow(0, ruleOf(tt.after))
		for range 2 { // the second time it is the rule in force
			if got := run(t, c, 0, stage.Operation{Key: key, Rule: tt.after}); math.Abs(got.Left-tt.left) > 1e-6 || math.Abs(got.Left-bucket.Level(0)) > 1e-6 {
				t.Errorf("case %d: %v tokens left, want %v; an exactbucket.Bucket has %v", i, got.Left, tt.left, bucket.Level(0))
			}
		}
	}
}

// A limit becomes 0 for a moment, and then is a thousandth of what it was. The script follows
// it as an exactbucket.Bucket does.
func TestADebtFollowsALimitThatWasZero(t *testing.T) {
	c := redistest.Start(t).Client()
	before := &dynamicconfig.Rule{Limit: 1000, Burst: 100, MaxDebt: time.Minute}
	run(t, c, 0, stage.Operation{Kind: stage.ChargeTokens, Key: "k", Rule: before, N: 1e6})
	bucket := exactbucket.New(0, ruleOf(before))
	bucket.Charge(0, 1e6, -before.MostDebt())
	for _, limit := range []rate.Limit{0, 1} {
		rule := &dynamicconfig.Rule{Limit: limit, Burst: 100, MaxDebt: time.Minute}
		bucket.Follow(0, ruleOf(rule))
		got := run(t, c, 0, stage.Operation{Key: "k", Rule: rule}).Left
		if math.Abs(got-bucket.Level(0)) > 1e-6 || limit > 0 && got < -rule.MostDebt() {
			t.Errorf("at %v/s there are %v tokens left, and an exactbucket.Bucket has %v", limit, got, bucket.Level(0))
		}
	}
}

// Else a bucket of a limit that was 0 would stay as it is for ever, because
// refusals write nothing.
func TestARefusalPutsANewRuleInForce(t *testing.T) {
	c := redistest.Start(t).Client()
	slow, fast := &dynamicconfig.Rule{Limit: 1e-6, Burst: 1}, &dynamicconfig.Rule{Limit: 10, Burst: 1}
	take := func(now time.Duration, r *dynamicconfig.Rule) bool {
		return run(t, c, now, stage.Operation{Key: "k", Rule: r, N: 1}).OK
	}
	if !take(0, slow) || take(time.Second, slow) || take(time.Second, fast) {
		t.Error("one at first, and no more")
	}
	if !take(time.Second+101*time.Millisecond, fast) {
		t.Error("a tenth of a second later there is none")
	}
}

// A bucket that has no tokens when Redis' clock goes back, as after a failover to a machine whose clock is
// behind, refuses all events of the next seconds. It fills meanwhile.
func TestABucketGoesOnAfterTheClockWentBack(t *testing.T) {
	c := redistest.Start(t).Client()
	rule := &dynamicconfig.Rule{Limit: 10, Burst: 10}
	take := func(now time.Duration, n float64) stage.Outcome {
		return run(t, c, now, stage.Operation{Key: "k", Rule: rule, N: n})
	}
	hour := time.Hour
	take(hour, 10)
	for i := range 20 { // under load for a while, so that the account is old
		take(hour+time.Duration(i)*time.Second, 10)
	}
	if got := take(hour+19*time.Second, 1); got.OK || got.Left != 0 {
		t.Fatalf("%+v", got)
	}
	if got := take(0, 1); got.OK || got.Left != 0 || got.RetryAfter != time.Second/10 {
		t.Errorf("an hour earlier: %+v", got)
	}
	if got := take(time.Second/10, 1); !got.OK || got.Left != 0 {
		t.Errorf("after RetryAfter: %+v", got)
	}
	if got := take(0, 0); got.Left != 0 {
		t.Errorf("%+v", got)
	}
	if got := run(t, c, 0, stage.Operation{Key: "k", Rule: rule, N: 3, Kind: stage.ChargeTokens}); got.Left != -3 {
		t.Errorf("%+v", got)
	}
	if got := take(500*time.Millisecond, 2); !got.OK || math.Abs(got.Left) > 1e-9 {
		t.Errorf("it goes on from there: %+v", got)
	}
}

func TestABucketThatIsFullAgainIsGone(t *testing.T) {
	c := redistest.Start(t).Client()
	ttl := func() time.Duration {
		d, err := c.PTTL(t.Context(), "k").Result()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	rule := &dynamicconfig.Rule{Limit: 10, Burst: 100}
	do := func(kind stage.OperationKind, rule *dynamicconfig.Rule, n float64) {
		runScript(t, expiring, c, 0, stage.Operation{Kind: kind, Key: "k", Rule: rule, N: n}, time.Second)
	}
	take := func(n float64) { do(stage.TakeTokens, rule, n) }
	take(0)
	if n, _ := c.Exists(t.Context(), "k").Result(); n != 0 {
		t.Error("a look makes a bucket")
	}
	began := time.Now()
	take(50)
	if d := ttl(); d < 5*time.Second-time.Since(began)-time.Millisecond || d > 5002*time.Millisecond {
		t.Errorf("50 of 10/s are missing, and it expires in %v", d)
	}
	do(stage.ReturnTokens, rule, 50)
	if n, _ := c.Exists(t.Context(), "k").Result(); n != 0 {
		t.Error("a full bucket stays")
	}
	do(stage.TakeTokens, &dynamicconfig.Rule{Limit: 0, Burst: 5}, 5)
	if d := ttl(); d < 20*365*24*time.Hour {
		t.Errorf("one that never fills expires in %v", d)
	}
}

// The bucket of the faster rule would be full again, and gone, after a second.
func TestALowerLimitHoldsForAKeyThatWasQuiet(t *testing.T) {
	c := redistest.Start(t).Client()
	fast, slow := &dynamicconfig.Rule{Limit: 1000, Burst: 1000}, &dynamicconfig.Rule{Limit: 1.0 / 60, Burst: 1000}
	do := func(now time.Duration, rule *dynamicconfig.Rule, n float64) stage.Outcome {
		return runScript(t, expiring, c, now, stage.Operation{Key: "k", Rule: rule, N: n}, DefaultKeep)
	}
	do(0, fast, 1000)
	if d := c.PTTL(t.Context(), "k").Val(); d < DefaultKeep-time.Minute || d > DefaultKeep {
		t.Errorf("Redis keeps the bucket for %v", d)
	}
	if got := do(1100*time.Millisecond, slow, 0).Left; got > 0.02 {
		t.Errorf("1.1 s later, after the limit became 1/m, %v tokens are left", got)
	}
}

func TestExtremeNumbers(t *testing.T) {
	c := redistest.Start(t).Client()
	inf, nan := math.Inf(1), math.NaN()
	i := 0
	for _, limit := range []float64{0, -1, nan, inf, 1e300, 5e-324, 1e-12, 1e12} {
		for _, burst := range []float64{0, 1, 5, 1e12, inf, nan, -1} {
			for _, n := range []float64{0, 1, 5, 1e12, 1 << 53, inf, nan, -1, -1e300} {
				for _, debt := range []time.Duration{0, 1, math.MaxInt64} {
					i++
					rule := &dynamicconfig.Rule{Limit: rate.Limit(limit), Burst: burst, MaxDebt: debt, MaxCost: 1e12}
					for kind := stage.TakeTokens; kind <= stage.ReturnTokens; kind++ {
						for _, now := range []time.Duration{0, time.Hour, time.Minute} {
							got := run(t, c, now, stage.Operation{Key: fmt.Sprint(i), Rule: rule, N: n, Kind: kind, Longest: time.Duration(math.MaxInt64)})
							if math.IsNaN(got.Left) || got.Left > max(within(burst, maxTokens), 0) || got.Wait < 0 || got.RetryAfter < 0 {
								t.Fatalf("limit %v burst %v n %v debt %v: %+v", limit, burst, n, debt, got)
							}
						}
					}
				}
			}
		}
	}
	rule := &dynamicconfig.Rule{Limit: 0, Burst: 5}
	take := func() stage.Outcome {
		return run(t, c, 0, stage.Operation{Key: "never", Rule: rule, N: 5, Longest: maxWait})
	}
	if a, b := take(), take(); !a.OK || b.OK || b.RetryAfter != 0 {
		t.Errorf("a limit of 0: %+v, then %+v", a, b)
	}
}

func TestWhatIsNotABucketIsNotTouched(t *testing.T) {
	c := redistest.Start(t).Client()
	args := arguments(stage.Operation{Key: "k", Rule: &dynamicconfig.Rule{Limit: 1, Burst: 1}, N: 1}, DefaultKeep)
	ask := func() error { return c.Eval(t.Context(), timed.text, []string{"k"}, append(args, epoch)...).Err() }
	for _, text := range []string{"mine", "\x02" + string(make([]byte, 40)), string(make([]byte, 41))} {
		c.Set(t.Context(), "k", text, 0)
		if err := ask(); err == nil {
			t.Errorf("%q passes for a bucket", text)
		}
		if got := c.Get(t.Context(), "k").Val(); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	c.Del(t.Context(), "k")
	c.RPush(t.Context(), "k", "x")
	if err := ask(); err == nil {
		t.Error("a list passes for a bucket")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(int64(1), int64(5), "0.5", byte(3))
	f.Add(int64(0), int64(-1), "-1e300", byte(3))
	f.Add(int64(7), int64(math.MinInt64), "nan", byte(2))
	f.Fuzz(func(t *testing.T, ok, micros int64, left string, shape byte) {
		answers := []any{nil, left, []any{ok, micros}, []any{ok, micros, left}, []any{left, micros, left}, []any{ok, left, left}, []any{ok, micros, ok}, []any{nil, nil, nil}}
		taken, err := read(answers[int(shape)%len(answers)])
		if err == nil && (taken.Wait < 0 || taken.RetryAfter < 0 || math.IsNaN(taken.Left) || math.IsInf(taken.Left, 0)) {
			t.Errorf("%+v", taken)
		}
		if err == nil && (taken.Wait > 0 && !taken.OK || taken.RetryAfter > 0 && taken.OK) {
			t.Errorf("%+v", taken)
		}
	})
}

func TestBucketsOnAnotherClock(t *testing.T) {
	var now time.Duration
	b := open(t, Config{Timeout: time.Minute}, []string{redistest.Start(t).Address}, WithClock(func() time.Duration { return now }))
	rule := &dynamicconfig.Rule{Key: "k", Limit: 1, Burst: 2}
	for _, tt := range []struct {
		at time.Duration
		ok bool
	}{{0, true}, {0, true}, {0, false}, {time.Second - time.Microsecond, false}, {time.Second, true}, {time.Hour, true}, {time.Hour, true}, {time.Hour, false}} {
		now = tt.at
		taken, err := b.Do(t.Context(), stage.Operation{Key: "k", Rule: rule, N: 1})
		if err != nil || taken.OK != tt.ok {
			t.Errorf("at %v: %+v, %v", tt.at, taken, err)
		}
	}
}
