// SPDX-License-Identifier: Apache-2.0

package remote

import "log/slog"

// Background runs functions in goroutines of their own, up to a number at a
// time. A panic of one ends nothing. It is safe for concurrent use. Use
// NewBackground.
type Background struct {
	busy chan struct{}
	log  *slog.Logger
}

// NewBackground returns a Background of at most most goroutines, which logs
// their panics.
func NewBackground(most int, log *slog.Logger) Background {
	return Background{make(chan struct{}, most), log}
}

// Most is how many functions may run at a time.
func (b Background) Most() int { return cap(b.busy) }

// Run runs f, or returns false if too much runs already.
func (b Background) Run(f func()) bool {
	select {
	case b.busy <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer func() {
			if p := recover(); p != nil {
				b.log.Error("a background call panicked", "panic", p)
			}
			<-b.busy
		}()
		f()
	}()
	return true
}

// Join waits until nothing runs.
func (b Background) Join() {
	for range cap(b.busy) {
		b.busy <- struct{}{}
	}
	for range cap(b.busy) {
		<-b.busy
	}
}
