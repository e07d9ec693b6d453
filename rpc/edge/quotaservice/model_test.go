// SPDX-License-Identifier: Apache-2.0

package quotaservice_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	pb "github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// bucket is quotaservice's bucket as its documentation has it, without its rounding. Times are
// in seconds.
type bucket struct {
	size, fill, wait, debt, most float64

	saved float64 // tokens
	paid  float64 // when the debt is paid
}

// ask says what a request for n tokens at now gets, and how far it is, in seconds, from being
// answered otherwise. A caller waits for at most patience.
func (b *bucket) ask(now, n, patience float64) (status pb.AllowResponse_Status, wait, margin float64) {
	if n > b.most {
		return pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED, 0, math.Inf(1)
	}
	if now > b.paid {
		b.saved, b.paid = min(b.size, b.saved+(now-b.paid)*b.fill), now
	}
	wait = b.paid - now
	debt := wait + max(0, n-b.saved)/b.fill
	patience = min(b.wait, patience)
	margin = min(math.Abs(debt-b.debt), math.Abs(wait-patience))
	if debt > b.debt || wait > patience {
		return timeout, 0, margin
	}
	return ok, wait, margin
}

// take takes n tokens.
func (b *bucket) take(n float64) {
	own := min(b.saved, n)
	b.saved -= own
	b.paid += (n - own) / b.fill
}

// Any requests at any times get what quotaservice's bucket answers. An answer may differ only
// where a thousandth of the time since the first request decides.
func TestAnyRequestsAreAnsweredAsByTheOriginalBucket(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string, from, to int64) int64 { return rapid.Int64Range(from, to).Draw(rt, name) }
		size, fill := draw("size", 1, 200), draw("fill", 1, 100)
		wait, debt, most := draw("wait", 1, 3000), draw("debt", 1, 12000), draw("most", 1, 300)
		type request struct{ pause, tokens, override int64 }
		requests := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) request {
			r := request{override: -1}
			switch rapid.IntRange(0, 3).Draw(rt, "when") {
			case 1:
				r.pause = rapid.Int64Range(0, 50).Draw(rt, "soon")
			case 2:
				r.pause = rapid.Int64Range(0, 5000).Draw(rt, "later")
			}
			r.tokens = rapid.Int64Range(-1, 40).Draw(rt, "tokens")
			if rapid.Bool().Draw(rt, "many") {
				r.tokens *= 8
			}
			if rapid.Bool().Draw(rt, "overrides") {
				r.override = rapid.Int64Range(0, 4000).Draw(rt, "override")
			}
			return r
		}), 1, 60).Draw(rt, "requests")
		config := one(fmt.Sprintf("size: %d, fill_rate: %d, wait_timeout_millis: %d, max_debt_millis: %d, max_tokens_per_request: %d", size, fill, wait, debt, most))
		synctest.Test(t, func(t *testing.T) {
			client := serveGroup(t, config)
			model := bucket{size: float64(size), fill: float64(fill), wait: float64(wait) / 1e3, debt: float64(debt) / 1e3, most: float64(most), saved: float64(size)}
			begin := time.Now()
			for i, r := range requests {
				time.Sleep(time.Duration(r.pause) * time.Millisecond)
				q := &pb.AllowRequest{Namespace: "a", BucketName: "b", TokensRequested: r.tokens}
				patience := math.Inf(1)
				if r.override >= 0 {
					q.MaxWaitTimeOverride, q.MaxWaitMillisOverride = true, r.override
					patience = float64(r.override) / 1e3
				}
				got, err := client.Allow(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				now := time.Since(begin).Seconds()
				tokens := float64(max(r.tokens, 1))
				want, waits, margin := model.ask(now, tokens, patience)
				slack := 0.002 + 0.002*(now+model.size/model.fill+waits)
				if got.GetStatus() != want && margin > slack {
					t.Fatalf("request %d, of %v tokens after %.3f s: %v, want %v in\n%s\n%+v", i, tokens, now, got.GetStatus(), want, config, requests)
				}
				if off := float64(got.GetWaitMillis())/1e3 - waits; got.GetStatus() == ok && want == ok && math.Abs(off) > slack {
					t.Fatalf("request %d waits %d ms, want %.3f s in\n%s\n%+v", i, got.GetWaitMillis(), waits, config, requests)
				}
				if got.GetStatus() == ok {
					model.take(tokens)
				}
			}
		})
	})
}
