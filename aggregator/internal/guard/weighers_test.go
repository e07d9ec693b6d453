// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc"
)

// A weigher that takes longer than a second, as one that calls a server, is called only now and
// then. What it makes too late goes nowhere.
func TestASlowWeigherIsCalledNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ws Weighers
		calls, takes := 0, 2*time.Second
		w := algorithm.Weigher{Weigh: func(_ float64, _ []algorithm.Demand, parts []float64) {
			calls++
			time.Sleep(takes)
			parts[0] = 1
		}}
		weigh := func(name string) (part float64, why any) {
			parts := make([]float64, 1)
			defer func() {
				why = recover()
				time.Sleep(time.Second)
				part = parts[0]
			}()
			ws.Bounded(name, w).Weigh(1, nil, parts)
			return 0, nil
		}
		for begin := time.Now(); time.Since(begin) < 20*time.Second; {
			if part, why := weigh("slow"); part != 0 || why == nil {
				t.Fatalf("it made %v and failed with %v", part, why)
			}
		}
		if calls != 2 {
			t.Errorf("in 20 s it was called %d times, want 2", calls)
		}
		takes = time.Millisecond
		if part, why := weigh("another"); part != 1 || why != nil {
			t.Errorf("another weigher made %v and failed with %v", part, why)
		}
		time.Sleep(againAfter)
		if part, why := weigh("slow"); part != 1 || why != nil {
			t.Errorf("it is fast again, and made %v and failed with %v", part, why)
		}
	})
}

// Rules name a weigher on several accounts. The owner waits for it once, and not once for each account.
func TestAWeigherThatHangsIsOneOnAllAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ws Weighers
		release := make(chan struct{})
		hangs := algorithm.Weigher{Weigh: func(float64, []algorithm.Demand, []float64) { <-release }}
		begin := time.Now()
		for _, name := range []string{"hangs", "average/hangs", "claims/hangs"} {
			func() {
				defer func() {
					if why := recover(); why == nil {
						t.Errorf("%s: it returned", name)
					}
				}()
				ws.Bounded(name, hangs).Weigh(1, nil, nil)
			}()
		}
		if took := time.Since(begin); took != returnsWithin {
			t.Errorf("the owner waited for %v, want %v", took, returnsWithin)
		}
		close(release)
		synctest.Wait()
	})
}

// The stack of a panic is that of the weigher.
func TestAPanicOfAWeigherHasItsStack(t *testing.T) {
	var ws Weighers
	broken := errors.New("broken")
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, broken) || !strings.Contains(rpc.StackOf(err), "weighers_test.go") {
			t.Errorf("it failed with %v", err)
		}
	}()
	ws.Bounded("broken", algorithm.Weigher{Weigh: func(float64, []algorithm.Demand, []float64) { panic(broken) }}).Weigh(1, nil, nil)
}
