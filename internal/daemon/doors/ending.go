// SPDX-License-Identifier: Apache-2.0

package doors

import "sync"

// Ending is the first end of what should go on. Use NewEnding.
type Ending struct {
	ended chan struct{} // closed by the first end
	once  sync.Once
	err   error // of the first end; read it after ended
}

// NewEnding returns an Ending of what goes on.
func NewEnding() *Ending { return &Ending{ended: make(chan struct{})} }

// Ended is closed by the first end.
func (e *Ending) Ended() <-chan struct{} { return e.ended }

// Err is why it has ended; nil if it has not, or as it should.
func (e *Ending) Err() error {
	select {
	case <-e.ended:
		return e.err
	default:
		return nil
	}
}

// End notes that something has ended, because of err or as it should.
func (e *Ending) End(err error) {
	e.once.Do(func() {
		e.err = err
		close(e.ended)
	})
}
