// SPDX-License-Identifier: Apache-2.0

// Package events remembers what happened at a daemon, and streams it to who listens. It does not
// know what an event is about. One lock guards the events.
package events

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/admin/api/reply"
)

// Event is something that an operator may want to know of at once.
type Event struct {
	ID   int64     `json:"id"` // counts from 1 while the daemon runs
	Time time.Time `json:"time"`

	// Kind is limits-stored, limits-applied, limits-refused, or member.
	Kind string `json:"kind"`

	Text string `json:"text"` // for people
}

// Feed remembers the newest events, and sends them to listeners. Use New. It is safe for
// concurrent use.
type Feed struct {
	now func() time.Time
	run string // differs from that of the daemon's last run

	streams atomic.Int64 // that are open, or about to be refused

	mu     sync.Mutex // guards what follows
	last   int64      // the ID of the newest
	recent []Event    // the newest keptEvents, the oldest first
	more   chan struct{}
}

// keptEvents is how many events are remembered.
const keptEvents = 1000

// New returns a Feed without events, by the clock now.
func New(now func() time.Time) *Feed {
	return &Feed{now: now, run: strconv.FormatInt(now().UnixMicro(), 36), more: make(chan struct{})}
}

// Add adds an event, whose ID and Time it sets.
func (e *Feed) Add(event Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	event.ID, event.Time = e.last, e.now()
	if len(e.recent) == keptEvents {
		e.recent = append(e.recent[:0:0], e.recent[keptEvents/2:]...)
	}
	e.recent = append(e.recent, event)
	close(e.more)
	e.more = make(chan struct{})
}

// Since returns the events after the one with an ID that are remembered, and what is closed
// when there are more.
func (e *Feed) Since(id int64) ([]Event, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if id > e.last { // of the daemon's last run
		id = 0
	}
	first := len(e.recent)
	for first > 0 && e.recent[first-1].ID > id {
		first--
	}
	return append([]Event(nil), e.recent[first:]...), e.more
}

// seen is the ID of the newest event of e that a reader has seen, who says so as the stream does, or
// by the number alone; 0 if they have seen none.
func (e *Feed) seen(said string) int64 {
	number, run, whole := strings.Cut(said, "@")
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil || whole && run != e.run {
		return 0
	}
	return id
}

// keepAlive is how often a stream without events says that it is there.
const keepAlive = 15 * time.Second

// maxStreams bounds how many listen at once: half of the connections to --admin stay for the rest.
const maxStreams = 128

// Past answers all that is remembered.
func (e *Feed) Past(w http.ResponseWriter) error {
	past, _ := e.Since(0)
	return reply.JSON(w, http.StatusOK, map[string]any{"events": past})
}

// Stream answers what happens, for as long as the reader listens, and may. A reader that comes back
// with Last-Event-ID gets what it has missed. It refuses a reader when maxStreams listen.
func (e *Feed) Stream(w http.ResponseWriter, r *http.Request, mayStill func() bool) error {
	defer e.streams.Add(-1)
	if e.streams.Add(1) > maxStreams {
		return reply.Refuse(http.StatusServiceUnavailable, "%d readers listen to what happens already, and there is no room for more: ask again later, or ask for ?past", maxStreams)
	}
	last := e.seen(r.Header.Get("Last-Event-ID"))
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Time{}) // a reader that is gone ends the request
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	for {
		happened, more := e.Since(last)
		for _, event := range happened {
			text, err := json.Marshal(event)
			if err != nil { // no field can fail
				return nil
			}
			fmt.Fprintf(w, "id: %d@%s\nevent: %s\ndata: %s\n\n", event.ID, e.run, event.Kind, text)
			last = event.ID
		}
		if len(happened) == 0 {
			fmt.Fprint(w, ": still here\n\n")
		}
		if out.Flush() != nil || !wait(r, more) {
			return nil
		}
		if !mayStill() { // the right was taken away
			return nil
		}
	}
}
