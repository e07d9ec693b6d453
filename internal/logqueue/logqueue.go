// SPDX-License-Identifier: Apache-2.0

package logqueue

import (
	"io"
	"sync"
	"time"
)

// maxWaiting is how many bytes wait for the reader at most.
const maxWaiting = 256 << 10

// Writer is an io.Writer that hands what it gets to another one, in order, from a goroutine of
// its own. While that one does not take what waits, more is lost. Use New, and then Close. Safe
// for concurrent use.
type Writer struct {
	to    io.Writer
	ended chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex // protects following fields
	some    sync.Cond  // signalled when there is something to write, or nothing more will come
	waiting []byte
	lost    int64
	closed  bool
}

// New returns a Writer to another one, which is called by one goroutine at a time.
func New(to io.Writer) *Writer {
	w := &Writer{to: to, ended: make(chan struct{})}
	w.some.L = &w.mu
	go w.run()
	return w
}

// Write implements io.Writer. It waits for nobody, takes all of line or nothing, and always
// says that it took it: a log has no use for an error.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.closed || len(w.waiting)+len(line) > maxWaiting {
		w.lost++
		return len(line), nil
	}
	w.waiting = append(w.waiting, line...)
	w.some.Signal()
	return len(line), nil
}

// Lost is how many lines were lost.
func (w *Writer) Lost() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.lost
}

// Close takes no more lines, and returns when those that wait are written, or after most.
// Its goroutine ends then, or when the other Writer returns.
func (w *Writer) Close(most time.Duration) {
	w.mu.Lock()
	w.closed = true
	w.some.Signal()
	w.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-w.ended:
	case <-timer.C:
	}
}

// run writes what waits until w is closed.
func (w *Writer) run() {
	defer close(w.ended)
	var writing []byte
	for {
		w.mu.Lock()
		for len(w.waiting) == 0 && !w.closed {
			w.some.Wait()
		}
		writing, w.waiting = w.waiting, writing[:0]
		w.mu.Unlock()
		if len(writing) == 0 {
			return
		}
		_, _ = w.to.Write(writing) // nobody could be told
	}
}
