// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"testing"
	"time"
)

// A refund to a key that is full has no room, and hides nothing that callers use later.
func TestWhatComesBackToAFullKeyHidesNothingThatIsUsedLater(t *testing.T) {
	under(t, 10, 10, "request-weighted", func(l *following) {
		e := l.key.Take(context.Background(), 10, 0)
		time.Sleep(900 * time.Millisecond)
		l.change(10, 10, "request-weighted") // 1 is lacking
		time.Sleep(2 * time.Second)
		e.Cancel() // the key is full
		if !l.key.AllowN(time.Now(), 8) {
			t.Fatal("8 of 10 are refused")
		}
		l.change(10, 10, "redis")
		l.has(2)
	})
}

func TestABucketThatIsMeasuredIsNotChargedAgainAfterARefund(t *testing.T) {
	under(t, 10, 10, "measured", func(l *following) {
		e := l.key.Take(context.Background(), 5, 0)
		l.change(10, 10, "measured")
		e.Cancel()
		time.Sleep(300 * time.Millisecond) // both stay full
		l.key.Charge(5)
		l.change(10, 10, "redis")
		l.has(5)
	})
}

// A bucket that was never asked under a smaller burst is full under the next one.
func TestABucketThatWasNotAskedUnderASmallerBurstHidesNothing(t *testing.T) {
	under(t, 1, 20, "even", func(l *following) {
		l.key.Allow()
		time.Sleep(time.Second)
		l.change(1, 10, "measured")
		l.change(1, 20, "measured")
		l.key.AllowN(time.Now(), 0)
		l.change(1, 20, "even")
		l.key.Allow()
		l.change(1, 20, "redis")
		l.has(19)
	})
}

// A bucket that a migration measures takes what the side that answers refuses, too, and lacks that already.
func TestABucketThatIsMeasuredIsNotChargedWithWhatTheOtherSideRefused(t *testing.T) {
	under(t, 10, 10, "measured", func(l *following) {
		l.key.Allow()
		l.change(5, 5, "measured")
		l.change(10, 10, "measured") // 5 are left here, and 9 there
		if l.key.Allow(); l.key.AllowN(time.Now(), 5) {
			t.Fatal("5 of 4 are allowed")
		}
		l.change(10, 10, "redis")
		l.has(3)
	})
}

// A refund to the bucket that answers is subtracted from what the bucket lacks once.
func TestABucketThatIsChargedAndNotAskedGetsBackOnce(t *testing.T) {
	under(t, 10, 10, "measured", func(l *following) {
		e := l.key.Take(context.Background(), 3, 0)
		l.change(10, 5, "measured")
		l.change(10, 10, "moves") // the bucket answers: it is charged, and not asked
		l.key.Charge(2)
		e.Cancel()
		l.change(10, 10, "even")
		l.change(10, 10, "redis")
		l.has(6)
	})
}
