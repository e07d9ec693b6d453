// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// settling is one host with a key that may have 20 tokens, and no more for months. The host asks a bucket
// elsewhere that no other host asks. Its law is that no change of the rule lets more pass than was given back.
type settling struct {
	t      rapid.TB
	group  *limiter.Group
	bucket *drained
	now    stage.Instant
	used   int64
	taken  []func(actual int64) // each settles what was taken
}

func settlingUnder(t rapid.TB, rule string) *settling {
	s := &settling{t: t, bucket: &drained{left: 20}, now: stage.Now()}
	s.group = limiter.NewGroup(s.limits(rule), 1, limiter.WithMigration(shadow.Migrator()), driver.WithSeed(1),
		limiter.WithRemote("redis", s.bucket), driver.WithBackground(func(f func()) { f() }))
	return s
}

func (s *settling) limits(rule string) *dynamicconfig.Snapshot {
	snapshot, err := dynamicconfig.Parse("limits", []byte("limits: [{key: k, limit: 0.000001/s, burst: 20, "+rule+"}]"))
	if err != nil {
		s.t.Fatal(err)
	}
	return snapshot
}

func (s *settling) change(rule string) {
	s.now = s.now.Add(time.Second)
	driver.Of(s.group).Configure(s.now, s.limits(rule))
}

// take takes n tokens, if there are as many.
func (s *settling) take(n int64) {
	of := s.group.For("k").Stage()
	v, receipt := of.Take(context.Background(), stage.Request{Now: s.now, N: n, Kind: stage.Take})
	if !v.OK() {
		return
	}
	if s.used += n; s.used > 20 {
		s.t.Fatalf("%d of 20 are used", s.used)
	}
	s.taken = append(s.taken, func(actual int64) {
		s.used += actual - n
		of.Settle(s.now, receipt, actual)
	})
}

// settle says what the i-th of those that took tokens, and have not settled, did cost.
func (s *settling) settle(i int, actual int64) {
	settle := s.taken[i]
	s.taken = append(s.taken[:i:i], s.taken[i+1:]...)
	settle(actual)
}

// drain takes what is left.
func (s *settling) drain() {
	for range 20 {
		s.take(1)
	}
}

// A remote bucket was measured, and refused what the host's own part allowed, because callers had given
// back only to that part. It lacks what it refused when the rule goes to it.
func TestABucketThatRefusedAsTheShadowLacksThatWhenItDecides(t *testing.T) {
	for _, then := range [][]string{
		{"algorithm: redis"},
		{"migrate: {from: even, to: redis, mode: new}"},
		{"migrate: {from: even, to: redis, mode: old}", "migrate: {from: redis, to: even, mode: old}"},
		{"algorithm: even", "algorithm: redis"},
	} {
		for _, actual := range []int64{0, 3} {
			s := settlingUnder(t, "algorithm: even")
			s.take(5)
			s.take(10)
			s.take(5)
			s.settle(1, actual)
			s.settle(0, 0)
			s.change("migrate: {from: redis, to: even, mode: new-shadow-old}")
			s.settle(0, 0)
			s.take(10)
			s.take(10)
			for _, rule := range then {
				s.change(rule)
			}
			s.drain()
		}
	}
}

// A migration asked a remote bucket and the host's own part. Later the own part decided alone, and then
// that bucket. What callers took during the migration comes back to the bucket once, and what they took
// later comes back as well.
func TestWhatAMigrationGaveComesBackOnceAndTheRestToo(t *testing.T) {
	for _, pair := range []string{"from: even, to: redis", "from: redis, to: even"} {
		for _, mode := range []string{"old-shadow-new", "new-shadow-old"} {
			for _, between := range [][]string{{"algorithm: even"}, {"algorithm: even", "algorithm: redis", "algorithm: even"}} {
				s := settlingUnder(t, "migrate: {"+pair+", mode: "+mode+"}")
				s.take(5)
				for _, rule := range between {
					s.change(rule)
				}
				s.take(10)
				s.change("algorithm: redis")
				s.settle(0, 0)
				s.settle(0, 3)
				if s.bucket.left != 17 {
					t.Errorf("%s, %s, then %q: the remote bucket has %v tokens, and 3 of 20 are used", pair, mode, between, s.bucket.left)
				}
				s.drain()
			}
		}
	}
}

// Where nothing measures the side of a migration that does not answer, a remote bucket is charged with what
// was used meanwhile when it answers again, and not with what it knows.
func TestABucketThatNoMigrationAskedIsChargedOnce(t *testing.T) {
	for _, back := range []string{"algorithm: redis", "migrate: {from: redis, to: even, mode: old}"} {
		s := settlingUnder(t, "algorithm: redis")
		s.group = limiter.NewGroup(s.limits("algorithm: redis"), 1, limiter.WithRemote("redis", s.bucket), driver.WithBackground(func(f func()) { f() }))
		s.take(10)
		s.change("migrate: {from: redis, to: even, mode: new}")
		s.take(4)
		s.change(back)
		if s.bucket.left != 6 {
			t.Errorf("%s: the remote bucket has %v tokens, and 14 of 20 are used", back, s.bucket.left)
		}
	}
}

// An event did cost more than it took, under a rule that does not ask the remote bucket. That bucket is charged
// with the difference once when it decides again, also if there were no tokens left.
func TestWhatCostsMoreThanThereWasIsChargedOnce(t *testing.T) {
	for _, first := range []int64{20, 15} {
		s := settlingUnder(t, "algorithm: redis")
		s.take(first)
		s.change("algorithm: even")
		s.take(20 - first)
		s.settle(0, first+4)
		s.change("algorithm: redis")
		if s.bucket.left != -4 {
			t.Errorf("%d were taken there: the remote bucket has %v tokens, and 24 of 20 are used", first, s.bucket.left)
		}
	}
}

// No change of a rule gives a second burst, whatever callers give back and when.
func TestModelOfWhatComesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func() string {
			algorithms := []string{"even", "redis", "elastic", "request-weighted"}
			from, to := pick(rt, "algorithm", algorithms...), pick(rt, "to", algorithms...)
			if mode := pick(rt, "mode", "", "old", "old-shadow-new", "new-shadow-old", "new"); mode != "" && from != to {
				return fmt.Sprintf("migrate: {from: %s, to: %s, mode: %s}", from, to, mode)
			}
			return "algorithm: " + from
		}
		s := settlingUnder(rt, draw())
		take := func(rt *rapid.T) { s.take(pick[int64](rt, "n", 1, 5, 10, 20)) }
		rt.Repeat(map[string]func(*rapid.T){
			"take": take, "take again": take,
			"settle": func(rt *rapid.T) {
				if len(s.taken) == 0 {
					rt.Skip("nothing is taken")
				}
				s.settle(rapid.IntRange(0, len(s.taken)-1).Draw(rt, "which"), pick[int64](rt, "actual", 0, 0, 3, 7))
			},
			"change": func(*rapid.T) { s.change(draw()) },
			"report": func(rt *rapid.T) {
				s.now = s.now.Add(pick(rt, "after", time.Millisecond, 5*time.Second))
				driver.Of(s.group).Report(s.now)
			},
		})
		s.drain()
	})
}
