// SPDX-License-Identifier: Apache-2.0

package waittest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// tests is tests that end with a code, and leave a goroutine behind until end is closed.
type tests struct {
	code int
	end  chan struct{}
}

func (s tests) Run() int {
	go func() { <-s.end }()
	return s.code
}

func TestGoroutinesMayTakeLongerToEndThanGoleakWaits(t *testing.T) {
	slow := tests{code: 7, end: make(chan struct{})}
	time.AfterFunc(time.Second, func() { close(slow.end) })
	if code := (ending{slow, ends}).Run(); code != slow.code {
		t.Errorf("the tests ended with %d, not %d", code, slow.code)
	}
	if err := goleak.Find(); err != nil {
		t.Errorf("not waited for: %v", err)
	}
}

func TestAGoroutineThatStaysIsNotWaitedForForEver(t *testing.T) {
	stays := tests{end: make(chan struct{})}
	defer close(stays.end)
	ending{stays, time.Millisecond}.Run()
	if goleak.Find() == nil {
		t.Error("the goroutine is not found")
	}
}
