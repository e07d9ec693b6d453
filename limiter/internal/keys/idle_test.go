// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter/stage"
)

// naiveIdle does what idleKeys do: it looks at all keys there are.
type naiveIdle struct {
	until map[*Key]stage.Instant
}

func (n naiveIdle) take(now stage.Instant) (due map[*Key]int) {
	due = make(map[*Key]int)
	for k, until := range n.until {
		if until <= now {
			due[k] = 1
			delete(n.until, k)
		}
	}
	return due
}

func TestIdleKeysDoWhatNaiveOnesDo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var idle idleKeys
		twin := naiveIdle{make(map[*Key]stage.Instant)}
		all := make([]*Key, 5)
		used := make(map[*Key]bool) // since the last take
		for i := range all {
			all[i] = &Key{name: fmt.Sprint(i)}
			all[i].state.Store(new(State))
		}
		now := stage.Instant(0)
		key := rapid.SampledFrom(all)
		rt.Repeat(map[string]func(*rapid.T){
			"a key is not used": func(rt *rapid.T) {
				k, until := key.Draw(rt, "key"), now+stage.Instant(rapid.IntRange(0, 20).Draw(rt, "for"))
				if k.Idle() || used[k] {
					return
				}
				k.state.Store(&State{idle: true})
				idle.add(k, until)
				twin.until[k] = until
			},
			"a key is used": func(rt *rapid.T) {
				k := key.Draw(rt, "key")
				k.state.Store(new(State))
				delete(twin.until, k)
				used[k] = true
			},
			"a key is forgotten": func(rt *rapid.T) {
				k := key.Draw(rt, "key")
				k.state.Store(nil)
				delete(twin.until, k)
				used[k] = true
			},
			"take": func(rt *rapid.T) {
				now += stage.Instant(rapid.IntRange(0, 10).Draw(rt, "later"))
				got := make(map[*Key]int)
				idle.take(now, func(k *Key) {
					got[k]++
					k.state.Store(nil)
				})
				if want := twin.take(now); !maps.Equal(got, want) {
					rt.Fatalf("at %d it takes %d keys, want %d", now, len(got), len(want))
				}
				clear(used)
				if idle.len() != len(twin.until) {
					rt.Fatalf("%d are left, want %d", idle.len(), len(twin.until))
				}
				for _, rest := range idle.all[len(idle.all):cap(idle.all)] {
					if rest.k != nil {
						rt.Fatal("a key that is not among them keeps its memory")
					}
				}
			},
		})
	})
}
