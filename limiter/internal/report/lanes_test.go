// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/lanes"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// byLetter places keys by their first letter.
type byLetter struct{}

func (byLetter) Owner(key string) string { return key[:1] }

// onlyOwner owns all keys.
type onlyOwner struct{}

func (onlyOwner) Owner(string) string { return "a" }

// reporting is a host whose reports are answered at once.
type reporting struct {
	*host
	events, reported map[string]int64 // by key; reported counts what was answered
	reports          map[string]int   // by key
	messages         map[string]int   // early ones, by owner
	answer           func() string    // to a message
}

func newReporting(t testing.TB, traits dynamicconfig.Traits, answer func() string) *reporting {
	h := newHost(t, 1000, traits, 10)
	h.early.owner = byLetter{}
	return &reporting{h, map[string]int64{}, map[string]int64{}, map[string]int{}, map[string]int{}, answer}
}

// send answers the message to each owner.
func (r *reporting) send(now stage.Instant, batches []*Batch) {
	for _, b := range batches {
		for _, part := range usage.Split(&b.Usage, byLetter{}) {
			if b.early {
				r.messages[part.Owner]++
			}
			answer := r.answer()
			for i, key := range part.Usage.Keys {
				if r.reports[key]++; answer != "lost" {
					r.reported[key] += part.Usage.Allowed[i] + part.Usage.Rejected[i]
				}
			}
			g := grants(len(part.Rows), 0.5, 10)
			switch answer {
			case "lost":
				r.Fail(now, b, part.Rows)
				continue
			case "refused":
				clear(g.Weight)
				clear(g.Burst)
				clear(g.Tokens)
				clear(g.Lease)
			}
			if err := r.Apply(now, b, part.Rows, g, r.hosts); err != nil {
				r.t.Fatal(err)
			}
		}
		r.Done(b)
	}
}

// run goes on for d, with a regular report each second.
func (r *reporting) run(from stage.Instant, d time.Duration) (now stage.Instant) {
	for now = from; now < from.Add(d); now += second / 100 {
		r.send(now, r.urgent(now))
		if now%second == 0 {
			r.send(now, r.report(now))
		}
	}
	return now
}

// A host reports each use once in an answered report, no matter which reports are lost or
// refused. Where owners answer all reports, and tokens are there, the host makes at most three reports
// of an event: of the event, that no other has followed, and that the demand has gone. A host that may
// ask makes no more reports than there are events, beside one of a key that is new.
func TestEveryUseIsReportedOnceAndNoneOften(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		healthy, asks := rapid.Bool().Draw(rt, "healthy"), rapid.Bool().Draw(rt, "asks")
		each, more := 2+maxFollowUps, 0
		if asks {
			each, more = 1, 1
		}
		r := newReporting(t, dynamicconfig.Traits{Early: true, Asks: asks}, func() string {
			if healthy {
				return "granted"
			}
			return rapid.SampledFrom([]string{"granted", "refused", "lost"}).Draw(rt, "answer")
		})
		now := stage.Instant(second)
		for _, key := range []string{"a1", "a2", "b1"} {
			r.use(now, key, 0)
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			s := rapid.SampledFrom(r.live).Draw(rt, "key")
			key, n := s.Part().Common().Key(), rapid.IntRange(0, 5).Draw(rt, "events")
			take(s, now, n)
			r.events[key] += int64(n)
			now = r.run(now, rapid.SampledFrom([]time.Duration{0, time.Second / 100, time.Second / 3, 3 * time.Second}).Draw(rt, "pause"))
			for key, n := range r.events {
				if most := each*int(n) + more; healthy && r.reports[key] > most {
					rt.Fatalf("%d reports of %q, which had %d events", r.reports[key], key, n)
				}
				if r.reported[key] > n {
					rt.Fatalf("%d events of %q were reported, and %d happened", r.reported[key], key, n)
				}
			}
		}
		r.answer = func() string { return "granted" }
		r.run(now, 5*time.Second)
		for key, n := range r.events {
			if r.reported[key] != n {
				rt.Errorf("%d events of %q were reported, and %d happened", r.reported[key], key, n)
			}
		}
	})
}

// However many keys run dry all the time, their owners get few messages, and each of
// these has all keys that wait. A quiet owner's key does not wait for them.
func TestAnOwnerGetsFewMessages(t *testing.T) {
	const seconds, keys = 10, 1000
	r := newReporting(t, reportsEarly, func() string { return "granted" })
	for i := range keys {
		r.use(0, fmt.Sprintf("%c%d", 'a'+i%2, i), 0)
	}
	for now := stage.Instant(0); now < seconds*second; now += second / 500 {
		for _, s := range r.live[int(now/(second/500))%50*20:][:20] {
			take(s, now, 20)
		}
		r.send(now, r.urgent(now))
	}
	for owner, n := range r.messages {
		if most := lanes.InARow + lanes.PerInterval*seconds; n > most || n < most/2 {
			t.Errorf("%d early messages to %s in %d intervals, at most %d", n, owner, seconds, most)
		}
	}
	now := stage.Instant(seconds * second)
	r.send(now, r.urgent(now))
	take(r.live[0], now, 20)
	take(r.use(now, "c", 0), now, 100)
	for until := now + second/50; now < until; now += second / 1000 {
		r.send(now, r.urgent(now))
	}
	if r.messages["c"] == 0 {
		t.Error("a key of a quiet owner waits for those of others")
	}
	// Owners that are quiet again are forgotten.
	r.run(now+2*second, 40*time.Second)
	if n := r.early.lanes.Owners(); n != 0 {
		t.Errorf("%d owners are remembered", n)
	}
}

// A message has no more keys than an owner accepts.
func TestAMessageOfManyKeysIsSplit(t *testing.T) {
	const keys = rpc.KeysPerCall + 1
	h := newHost(t, 1000, reportsEarly, 10)
	for i := range keys {
		h.use(0, fmt.Sprint(i), 60)
	}
	batches := h.urgent(second / 50)
	if len(batches) != 1 || batches[0].Usage.Len() != keys {
		t.Fatalf("%d batches", len(batches))
	}
	for _, part := range usage.Split(&batches[0].Usage, onlyOwner{}) {
		if n := len(part.Rows); n > rpc.KeysPerCall {
			t.Errorf("a message has %d keys", n)
		}
	}
}
