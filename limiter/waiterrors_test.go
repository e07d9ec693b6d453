// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// A wait that is refused says why, also through a Limiter around that of a Group's key.
func TestARefusedWaitSaysWhy(t *testing.T) {
	const longest = time.Duration(1<<63 - 1)
	for _, tt := range []struct {
		rule     string
		has      int // tokens that are taken before
		n        int
		deadline time.Duration
		want     error
	}{
		{"max_wait: 1s", 5, 1, time.Minute, nil},
		{"max_wait: 1s", 5, 3, longest, limiter.ErrTooLong},
		{"max_wait: 1s", 5, 3, time.Minute, limiter.ErrTooLong},
		{"max_wait: 1s", 5, 3, time.Second / 2, context.DeadlineExceeded},
		{"max_wait: 1m", 5, 3, 2 * time.Second, context.DeadlineExceeded},
		{"max_cost: 3", 0, 4, longest, limiter.ErrNever},
		{"burst: 5", 0, 6, longest, limiter.ErrNever},
		{"burst: 5", 5, 3, 2 * time.Second, context.DeadlineExceeded},
		{"max_debt: 5s, max_cost: 30", 6, 3, time.Second / 2, context.DeadlineExceeded}, // the debt that there is takes a second
		{"max_debt: 5s, max_cost: 30", 6, 6, time.Minute, limiter.ErrTooLong},           // the debt that there would be takes seven
		{"max_debt: 5s, max_cost: 30", 6, 6, longest, limiter.ErrTooLong},
		{"max_debt: 5s, max_cost: 30", 0, 11, time.Second, limiter.ErrNever},
		{"max_debt: 5s, max_cost: 30", 0, 11, longest, limiter.ErrNever},
		{"max_debt: 5s, max_cost: 30, max_wait: 10s", 6, 6, time.Minute, limiter.ErrTooLong},
		{"limit: 0/s", 0, 1, time.Minute, limiter.ErrNever},
		{"algorithm: request-weighted, fallback: closed", 0, 1, time.Minute, limiter.ErrFailed},
		{"limit: 5 in-flight", 0, 1, time.Minute, limiter.ErrInFlight},
		{"max_keys: 1", 0, 1, time.Minute, limiter.ErrTooManyKeys},
	} {
		for _, around := range []string{"a Group's", "FromStage", "a shadow"} {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(stage.Now().Sub(0).Abs())
				fields := "key: 'k*', algorithm: even, limit: 1/s, burst: 5, "
				for _, f := range []string{"limit: ", "algorithm: ", "burst: "} {
					if strings.Contains(tt.rule, f) {
						at := strings.Index(fields, f)
						fields = fields[:at] + fields[at+strings.Index(fields[at:], ",")+2:]
					}
				}
				if strings.Contains(tt.rule, "limit: ") {
					fields = strings.ReplaceAll(fields, "burst: 5, ", "")
				}
				g := limiter.NewGroup(traceLimits(t, "limits: [{"+fields+tt.rule+"}]"), 1)
				if strings.Contains(tt.rule, "max_keys") {
					g.For("k1").Allow()
				}
				l := g.For("k")
				switch around {
				case "FromStage":
					l = limiter.FromStage(l.Stage())
				case "a shadow":
					l = shadow.New(limiter.FromRate(rate.NewLimiter(1, 1)), l, dynamicconfig.ModeNew).Limiter()
				}
				if tt.has > 0 && !l.AllowN(time.Now(), tt.has) {
					t.Fatal("the bucket was full")
				}
				ctx := t.Context()
				if tt.deadline < longest {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				err := l.WaitN(ctx, tt.n)
				if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
					t.Errorf("%s, %d taken, %d wait for at most %v, by %s limiter: %v, want %v", tt.rule, tt.has, tt.n, tt.deadline, around, err, tt.want)
				}
				for _, wrong := range []string{"max_keys 0", "burst, 5"} {
					if err != nil && tt.n <= 5 && strings.Contains(err.Error(), wrong) {
						t.Errorf("%s, by %s limiter: %v", tt.rule, around, err)
					}
				}
			})
		}
	}
}
