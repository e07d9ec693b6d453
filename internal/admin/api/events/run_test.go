// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A reader who comes back with Last-Event-ID gets what they have missed, also of a daemon that was
// started anew meanwhile, whose events are counted from 1 again.
func TestAReaderWhoComesBackMissesNothing(t *testing.T) {
	began := time.Date(2026, 11, 26, 21, 0, 0, 0, time.UTC)
	before, after := New(func() time.Time { return began }), New(func() time.Time { return began.Add(time.Hour) })
	for _, text := range []string{"a1", "a2"} {
		before.Add(Event{Kind: "member", Text: text})
	}
	for _, text := range []string{"b1", "b2", "b3"} {
		after.Add(Event{Kind: "member", Text: text})
	}
	ids := regexp.MustCompile(`(?m)^id: (.*)$`).FindAllStringSubmatch(streamed(t, before, ""), -1)
	if len(ids) != 2 {
		t.Fatalf("IDs: %q", ids)
	}
	for _, tt := range []struct {
		feed *Feed
		last string
		want string
	}{
		{before, ids[0][1], "a2"},
		{before, ids[1][1], ""},
		{after, ids[0][1], "b1 b2 b3"},
		{after, ids[1][1], "b1 b2 b3"},
		{after, "2", "b3"}, // of a reader who counts
		{after, "no number", "b1 b2 b3"},
	} {
		var got []string
		for _, found := range regexp.MustCompile(`"text":"(\w+)"`).FindAllStringSubmatch(streamed(t, tt.feed, tt.last), -1) {
			got = append(got, found[1])
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("after %q: %q, want %q", tt.last, got, tt.want)
		}
	}
}

// streamed is what a reader gets at once who has seen the event with the ID last.
func streamed(t *testing.T, f *Feed, last string) string {
	t.Helper()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(gone, "GET", "/v1/events", nil)
	r.Header.Set("Last-Event-ID", last)
	w := httptest.NewRecorder()
	if err := f.Stream(w, r, func() bool { return false }); err != nil {
		t.Fatal(err)
	}
	return w.Body.String()
}
