// SPDX-License-Identifier: Apache-2.0

package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
)

// Sourced is a store that is a source too, as those of headgate are.
type Sourced interface {
	history.Store
	dynamicconfig.Source
	Close() error
}

// Open opens a store at a place, such as a directory or an address; another one each time,
// as another process would.
type Open func(place string) Sourced

// Store tests a store. newPlace makes a place whose store is empty.
func Store(t *testing.T, open Open, newPlace func(t *testing.T) string) {
	begin := func(t *testing.T) Sourced { return opened(t, open, newPlace(t)) }
	t.Run("an empty store has no versions", func(t *testing.T) {
		s := begin(t)
		if _, err := s.Newest(t.Context()); !errors.Is(err, history.ErrEmpty) {
			t.Errorf("Newest = %v", err)
		}
		if _, err := s.Load(t.Context()); !errors.Is(err, history.ErrEmpty) {
			t.Errorf("Load = %v", err)
		}
		var conflict *history.Conflict
		if _, err := s.Append(t.Context(), change(5, 1)); !errors.As(err, &conflict) || conflict.Newest != 0 {
			t.Errorf("a change of what is not there = %v", err)
		}
	})
	t.Run("versions are kept as they were written", func(t *testing.T) {
		place := newPlace(t)
		s := opened(t, open, place)
		c := history.Change{Text: "# ünïcode '\"; DROP TABLE\r\n" + limits(1), Author: "Ada O'Neil", Message: "first\n\tof 漢字 $1 %s"}
		before := time.Now()
		v, err := s.Append(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if v.Number != 1 || v.Text != c.Text || v.Author != c.Author || v.Message != c.Message || v.Fingerprint == "" || v.Time.Before(before.Truncate(time.Microsecond)) || v.Time.Location() != time.UTC {
			t.Errorf("Append = %+v", v)
		}
		other := opened(t, open, place)
		if got, err := other.Get(t.Context(), 1); err != nil || got != v {
			t.Errorf("Get = %+v, %v; want %+v", got, err, v)
		}
		v.Text = ""
		if got, err := other.Newest(t.Context()); err != nil || got != v {
			t.Errorf("Newest = %+v, %v; want %+v", got, err, v)
		}
	})
	t.Run("a change on an earlier version is refused", func(t *testing.T) {
		s := begin(t)
		appended(t, s, change(0, 1), change(1, 2))
		for _, base := range []int64{0, 1, 3} {
			var conflict *history.Conflict
			if _, err := s.Append(t.Context(), change(base, 9)); !errors.As(err, &conflict) || *conflict != (history.Conflict{Base: base, Newest: 2}) {
				t.Errorf("on version %d: %v", base, err)
			}
		}
		expectNumbers(t, s, 0, 10, 2, 1)
	})
	t.Run("a change on a version of another database is refused", func(t *testing.T) {
		s := begin(t)
		elsewhere := change(0, 2)
		elsewhere.Seen = "f"
		var conflict *history.Conflict
		if _, err := s.Append(t.Context(), elsewhere); !errors.As(err, &conflict) || *conflict != (history.Conflict{}) {
			t.Errorf("in an empty database: %v", err)
		}
		first, err := s.Append(t.Context(), change(0, 1))
		if err != nil {
			t.Fatal(err)
		}
		elsewhere = change(1, 2)
		elsewhere.Seen = first.Fingerprint + "f"
		if _, err := s.Append(t.Context(), elsewhere); !errors.As(err, &conflict) || *conflict != (history.Conflict{Base: 1, Newest: 1}) {
			t.Errorf("on another version 1: %v", err)
		}
		elsewhere.Seen = first.Fingerprint
		appended(t, s, elsewhere)
		expectNumbers(t, s, 0, 10, 2, 1)
	})
	t.Run("a change that is no good is refused", func(t *testing.T) {
		s := begin(t)
		for name, c := range map[string]history.Change{
			"broken text": {Text: "limits: [{key: a, limit: ten}]", Author: "a"},
			"no text":     {Author: "a"},
			"too long":    {Text: "limits: []\n" + strings.Repeat("#", dynamicconfig.MaxSize), Author: "a"},
			"NUL":         {Text: "limits: [] # \x00", Author: "a"},
			"no author":   {Text: limits(1)},
			"two lines":   {Text: limits(1), Author: "a\nb"},
			"no UTF-8":    {Text: limits(1), Author: "a", Message: "\xff"},
			"escapes":     {Text: limits(1), Author: "a", Message: "\x1b[2J"},
			"long reason": {Text: limits(1), Author: "a", Message: strings.Repeat("m", history.MaxMessage+1)},
			"base":        {Text: limits(1), Author: "a", Base: -1},
		} {
			if v, err := s.Append(t.Context(), c); err == nil {
				t.Errorf("%s: stored as %s", name, v.Name())
			}
		}
		if _, err := s.Newest(t.Context()); !errors.Is(err, history.ErrEmpty) {
			t.Errorf("something was stored: %v", err)
		}
	})
	t.Run("a store keeps a text of the largest size", func(t *testing.T) {
		s := begin(t)
		text := limits(1)
		text += strings.Repeat("#", dynamicconfig.MaxSize-len(text))
		appended(t, s, history.Change{Text: text, Author: "a"})
		if v, err := s.Get(t.Context(), 1); err != nil || v.Text != text {
			t.Errorf("%d bytes of %d: %v", len(v.Text), len(text), err)
		}
	})
	t.Run("lists have pages, and prune leaves the newest", func(t *testing.T) {
		s := begin(t)
		for i := range 7 {
			appended(t, s, change(int64(i), i+1))
		}
		expectNumbers(t, s, 0, 3, 7, 6, 5)
		expectNumbers(t, s, 5, 3, 4, 3, 2)
		expectNumbers(t, s, 2, 3, 1)
		expectNumbers(t, s, 1, 3)
		if _, err := s.Prune(t.Context(), 0); err == nil {
			t.Error("all versions may be pruned")
		}
		for keep, want := range map[int]int64{3: 4, 10: 0} {
			if removed, err := s.Prune(t.Context(), keep); keep == 3 && (removed != want || err != nil) {
				t.Errorf("Prune(%d) = %d, %v; want %d", keep, removed, err, want)
			}
		}
		expectNumbers(t, s, 0, 10, 7, 6, 5)
		for _, number := range []int64{-1, 0, 4, 8} {
			if _, err := s.Get(t.Context(), number); !errors.Is(err, history.ErrNoVersion) {
				t.Errorf("Get(%d) = %v", number, err)
			}
		}
		appended(t, s, change(7, 8)) // numbers are not used again
	})
	t.Run("restore makes a new version of an earlier text", func(t *testing.T) {
		s := begin(t)
		appended(t, s, change(0, 1), change(1, 2))
		v, err := history.Restore(t.Context(), s, 1, history.Change{Base: 2, Author: "b"})
		if err != nil || v.Number != 3 || v.Text != limits(1) || v.Message != "restore version 1" || v.Author != "b" {
			t.Errorf("Restore = %+v, %v", v, err)
		}
		if _, err := history.Restore(t.Context(), s, 9, history.Change{Base: 3, Author: "b"}); !errors.Is(err, history.ErrNoVersion) {
			t.Errorf("Restore of nothing = %v", err)
		}
		var conflict *history.Conflict
		if _, err := history.Restore(t.Context(), s, 1, history.Change{Base: 2, Author: "b"}); !errors.As(err, &conflict) {
			t.Errorf("Restore on an earlier version = %v", err)
		}
	})
	t.Run("many may open a new store at once", func(t *testing.T) {
		place := newPlace(t)
		var all sync.WaitGroup
		for range 8 {
			s := opened(t, open, place)
			all.Go(func() {
				if _, err := s.Append(t.Context(), change(0, 1)); err != nil && !errors.As(err, new(*history.Conflict)) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		expectNumbers(t, opened(t, open, place), 0, 10, 1)
	})
	t.Run("a change of the same process is reported at once", func(t *testing.T) {
		s := begin(t)
		ctx, cancel := context.WithCancel(t.Context())
		changed, done := make(chan struct{}, 100), make(chan struct{})
		go func() {
			defer close(done)
			s.Notify(ctx, func() { changed <- struct{}{} })
		}()
		// Notify may begin after the first change, and not after all.
		for base := int64(0); len(changed) == 0; base++ {
			if base == 10_000 {
				t.Fatal("no change is reported")
			}
			appended(t, s, change(base, 1))
		}
		cancel()
		<-done
	})
	t.Run("a closed store answers with errors", func(t *testing.T) {
		s := begin(t)
		appended(t, s, change(0, 1))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Newest(t.Context()); err == nil {
			t.Error("Newest after Close")
		}
		if _, err := s.Append(t.Context(), change(1, 2)); err == nil {
			t.Error("Append after Close")
		}
	})
}

// Race has two writers make so many changes each at place. They begin each change together,
// on the same version, so that one of them must try again. The history has each change once,
// whole, and in the order of its writer.
func Race(t *testing.T, open Open, place string, changes int) {
	const writers = 2
	acknowledged := make([][]history.Version, writers)
	conflicts := make([]int, writers)
	stores := []Sourced{opened(t, open, place), opened(t, open, place)}
	for i := range changes {
		var both sync.WaitGroup
		for w := range writers {
			both.Go(func() {
				c := change(int64(writers*i), 1+w*changes+i)
				c.Author, c.Message = fmt.Sprintf("writer %d", w), fmt.Sprintf("change %d", i)
				v, err := stores[w].Append(t.Context(), c)
				for {
					conflict, ok := errors.AsType[*history.Conflict](err)
					if !ok {
						break
					}
					conflicts[w]++
					c.Base = conflict.Newest
					v, err = stores[w].Append(t.Context(), c)
				}
				if err != nil {
					t.Error(err)
				}
				acknowledged[w] = append(acknowledged[w], v)
			})
		}
		both.Wait()
		if t.Failed() {
			return
		}
	}
	s := opened(t, open, place)
	list, err := s.List(t.Context(), 0, writers*changes+1)
	if err != nil || len(list) != writers*changes {
		t.Fatalf("%d versions, want %d: %v", len(list), writers*changes, err)
	}
	slices.Reverse(list)
	at := make([]int, writers)
	for i, v := range list {
		if v.Number != int64(i+1) {
			t.Fatalf("version %d stands where %d should", v.Number, i+1)
		}
		found := false
		for w := range writers {
			if at[w] < len(acknowledged[w]) && acknowledged[w][at[w]].Number == v.Number {
				want := acknowledged[w][at[w]]
				at[w]++
				found = true
				if got, err := s.Get(t.Context(), v.Number); err != nil || got != want {
					t.Fatalf("version %d is not what was acknowledged: %+v, %v; want %+v", v.Number, got, err, want)
				}
			}
		}
		if !found {
			t.Fatalf("version %d was acknowledged to nobody: %+v", v.Number, v)
		}
	}
	t.Logf("%d changes by %d writers, %v conflicts", len(list), writers, conflicts)
}

// change gives the key "a" a limit of n/s.
func change(base int64, n int) history.Change {
	return history.Change{Base: base, Text: limits(n), Author: "a test", Message: fmt.Sprintf("limit %d", n)}
}

// Put appends text to the store at place, as another process would.
func Put(t *testing.T, open Open, place, text string) {
	t.Helper()
	s := open(place)
	defer s.Close()
	newest, err := s.Newest(t.Context())
	if err != nil && !errors.Is(err, history.ErrEmpty) {
		t.Fatal(err)
	}
	appended(t, s, history.Change{Base: newest.Number, Text: text, Author: "a test"})
}

func opened(t *testing.T, open Open, place string) Sourced {
	s := open(place)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// appended makes changes, which must succeed.
func appended(t *testing.T, s history.Store, changes ...history.Change) {
	t.Helper()
	for _, c := range changes {
		if _, err := s.Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// expectNumbers lists versions.
func expectNumbers(t *testing.T, s history.Store, before int64, n int, want ...int64) {
	t.Helper()
	list, err := s.List(t.Context(), before, n)
	var got []int64
	for _, v := range list {
		got = append(got, v.Number)
		if v.Text != "" {
			t.Errorf("the list has the text of version %d", v.Number)
		}
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("List(%d, %d) = %v, %v; want %v", before, n, got, err, want)
	}
}
