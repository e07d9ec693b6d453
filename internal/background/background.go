// SPDX-License-Identifier: Apache-2.0

// Package background runs functions beside their caller, up to a number at a time:
//
//	b := background.New(64, log)
//	if !b.Run(func() { tell(owner) }) {
//		skipped++ // as many run already
//	}
//
// The package knows nothing of what runs, and keeps no queue.
package background

import "log/slog"

// Goroutines run functions, up to a number at a time. A panic of one ends nothing.
// Safe for concurrent use. Use New.
type Goroutines struct {
	busy chan struct{}
	log  *slog.Logger
}

// New returns Goroutines, at most most of them, which log their panics.
func New(most int, log *slog.Logger) Goroutines {
	return Goroutines{make(chan struct{}, most), log}
}

// Most is how many functions may run at a time.
func (b Goroutines) Most() int { return cap(b.busy) }

// Run runs f, or returns false if too much runs already.
func (b Goroutines) Run(f func()) bool {
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
func (b Goroutines) Join() {
	for range cap(b.busy) {
		b.busy <- struct{}{}
	}
	for range cap(b.busy) {
		<-b.busy
	}
}
