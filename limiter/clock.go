// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"reflect"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// await waits until the caller may act, or until nothing limits the key any more. When ctx
// ends before, it returns ctx's error, and when that was.
func (t *taken) await(ctx context.Context) (now stage.Instant, err error) {
	left := t.acts.Sub(stage.Now())
	if left <= 0 {
		return now, nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	for {
		open, changed := t.of.Open()
		if open {
			return now, nil
		}
		switch first(timer.C, ctx.Done(), changed) {
		case 0:
			return now, nil
		case 1:
			if now = stage.Now(); t.acts < now { // the wait is over too, and the tokens stay taken
				return now, nil
			}
			return now, ctx.Err()
		}
	}
}

// first waits for one of its channels, and returns which it was: 0 for due, 1 for done,
// more for those that follow.
func first(due <-chan time.Time, done <-chan struct{}, more []<-chan struct{}) int {
	receive := func(c any) reflect.SelectCase {
		return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)}
	}
	all := []reflect.SelectCase{receive(due), receive(done)}
	for _, c := range more {
		all = append(all, receive(c))
	}
	which, _, _ := reflect.Select(all)
	return which
}
