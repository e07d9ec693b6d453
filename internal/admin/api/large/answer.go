// SPDX-License-Identifier: Apache-2.0

package large

import (
	"errors"
	"net/http"
	"sync"
)

// Answer is a http.ResponseWriter that keeps what is written, for Room.Send. Use NewAnswer.
type Answer struct {
	Status int // 0: nothing was written
	Body   []byte
	header http.Header
}

// NewAnswer returns an empty Answer with header.
func NewAnswer(header http.Header) *Answer { return &Answer{header: header} }

// Header implements http.ResponseWriter.
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *Answer) WriteHeader(status int) {
	if a.Status == 0 {
		a.Status = status
	}
}

// Write implements http.ResponseWriter.
func (a *Answer) Write(text []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.Body = append(a.Body, text...)
	return len(text), nil
}

// most bounds the large answers of a Room, in bytes.
const most = 64 << 20

// ErrFull is the error of an answer that there is no room for.
var ErrFull = errors.New("too many large answers wait for slow readers: ask again in 10 seconds")

// Room bounds the large answers that wait until they are read: a reader may take minutes. The zero
// Room is empty. Safe for concurrent use.
type Room struct {
	mu   sync.Mutex // guards what follows
	held int        // bytes
}

// Send answers w with a, whose header w has. If there is no room for a, Send returns ErrFull, and w has
// a Retry-After and no answer. A Room that is empty has room for any.
func (r *Room) Send(w http.ResponseWriter, a *Answer) error {
	if size := len(a.Body); size > Small {
		if !r.take(size) {
			w.Header().Set("Retry-After", "10")
			w.Header().Del("ETag") // of what is not sent
			return ErrFull
		}
		defer r.take(-size)
	}
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	_, _ = w.Write(a.Body) // an error is that of a reader who has gone
	return nil
}

// take takes bytes, if there are so many, or gives them back.
func (r *Room) take(bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held > 0 && bytes > 0 && r.held+bytes > most {
		return false
	}
	r.held += bytes
	return true
}
