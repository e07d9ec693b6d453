// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"testing"
	"testing/synctest"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/sourcetest"
	"github.com/headgate/headgate/internal/waittest"
)

func TestMain(m *testing.M) { waittest.Main(m) }

func limited(t *testing.T, limit rate.Limit) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{Key: "a", Limit: limit}}}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWatchTellsEachChangeSinceLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, three := limited(t, 1), limited(t, 2), limited(t, 3)
		m := New(one)
		if s, err := m.Load(t.Context()); s != one || err != nil {
			t.Fatalf("Load = %v, %v", s, err)
		}
		m.Set(two) // between Load and Watch
		var told []*dynamicconfig.Snapshot
		var errs []error
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- m.Watch(ctx, func(s *dynamicconfig.Snapshot, err error) {
				told, errs = append(told, s), append(errs, err)
				if s == two {
					m.Set(one)
					m.Set(three) // from within, and the newest wins
				}
			})
		}()
		synctest.Wait()
		m.Set(nil)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
		if len(told) != 3 || told[0] != two || told[1] != three || told[2] != nil || errs[2] == nil || errs[1] != nil {
			t.Errorf("told %v, %v", told, errs)
		}
		m.Set(one)
	})
}

func TestWatchWithoutLoadBeginsWithThePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := limited(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		told := make(chan *dynamicconfig.Snapshot, 1)
		go func() {
			_ = New(one).Watch(ctx, func(s *dynamicconfig.Snapshot, _ error) { told <- s })
		}()
		if s := <-told; s != one {
			t.Errorf("told %v", s)
		}
	})
}

// Of several users that share a Source, none misses a change that another has loaded.
func TestUsersThatShareASourceMissNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := limited(t, 1), limited(t, 2)
		m := New(one)
		if s, err := m.Load(t.Context()); s != one || err != nil {
			t.Fatalf("Load = %v, %v", s, err)
		}
		m.Set(two)
		if s, err := m.Load(t.Context()); s != two || err != nil { // another user
			t.Fatalf("Load = %v, %v", s, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		told := make(chan *dynamicconfig.Snapshot, 1)
		go func() {
			_ = m.Watch(ctx, func(s *dynamicconfig.Snapshot, _ error) { told <- s })
		}()
		synctest.Wait()
		select {
		case s := <-told:
			if s != two {
				t.Errorf("told %v", s)
			}
		default:
			t.Error("a user that loaded the first configuration never hears of the second")
		}
	})
}

func TestNothingToLoad(t *testing.T) {
	if s, err := New(nil).Load(t.Context()); s != nil || err == nil {
		t.Errorf("Load = %v, %v", s, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(limited(t, 1)).Load(ctx); err == nil {
		t.Error("Load after the end of its context")
	}
}

func TestLiveFollowsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(limited(t, 1))
		live := dynamicconfig.NewLive(nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go live.Run(ctx, m, nil)
		for want := rate.Limit(1); want < 5; want++ {
			m.Set(limited(t, want))
			synctest.Wait()
			if r, ok := live.Current().Match("a"); !ok || r.Limit != want {
				t.Errorf("rule = %+v, want limit %v", r, want)
			}
		}
	})
}

func TestSource(t *testing.T) {
	sourcetest.Source(t, func(t *testing.T) sourcetest.Place {
		m := New(nil)
		return sourcetest.Place{
			Source: m,
			Put: func(text string) {
				s, err := dynamicconfig.Parse("test", []byte(text))
				if err != nil {
					t.Fatal(err)
				}
				m.Set(s)
			},
			Break: func() { m.Set(nil) },
		}
	})
}
