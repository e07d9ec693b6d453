// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// A Refusal stands for what one of the last refusals stood for, and for nothing else, and says when
// that event may have its tokens.
func TestARefusalStandsForWhatWasRefused(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all []*Refusal // each alone
		var last *Refusal
		for now := stage.Instant(0); len(all) < mostEarlier+1; now += stage.Instant(r.Int64N(int64(time.Second / 4))) {
			q := stage.Request{Now: now, N: r.Int64N(4), Longest: time.Duration(r.Int64N(4)) * time.Second}
			_, got := last.Stands(q)
			want, retries := false, make(map[stage.Instant]bool)
			for _, one := range all {
				if retry, ok := one.Stands(q); ok {
					want, retries[retry] = true, true
				}
			}
			if got != want {
				t.Fatalf("seed %d: %+v stands for %+v: %v", seed, last, q, got)
			}
			if retry, ok := last.Stands(q); ok && !retries[retry] {
				t.Fatalf("seed %d: %+v of %+v retries at %v", seed, last, q, retry)
			}
			wait := time.Duration(r.Int64N(int64(2 * time.Second)))
			all, last = append(all, Refuse(q, wait, nil)), Refuse(q, wait, last)
		}
	}
}

// An event that comes back when a Refusal says so is not refused by that again.
func TestARefusalEndsWhenItSaysToComeBack(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		var last *Refusal
		for now := stage.Instant(0); now < stage.Instant(10*time.Second); now += stage.Instant(r.Int64N(int64(time.Second / 4))) {
			q := stage.Request{Now: now, N: r.Int64N(4), Longest: time.Duration(r.Int64N(4)) * time.Second}
			retry, stands := last.Stands(q)
			if !stands {
				last = Refuse(q, time.Duration(r.Int64N(int64(2*time.Second))), last)
				if retry, stands = last.Stands(q); !stands {
					continue
				}
			}
			q.Now = retry
			if again, ok := last.Stands(q); ok {
				t.Fatalf("seed %d: an event that was to come back at %v is to come back at %v then", seed, retry, again)
			}
		}
	}
}
