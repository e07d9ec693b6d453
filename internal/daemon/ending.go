// SPDX-License-Identifier: Apache-2.0

package daemon

import "sync"

// ending is the first end of what should go on. Use newEnding.
type ending struct {
	ended chan struct{} // closed by the first end
	once  sync.Once
	err   error // of the first end; read it after ended
}

func newEnding() *ending { return &ending{ended: make(chan struct{})} }

// end notes that something has ended, because of err or as it should.
func (e *ending) end(err error) {
	e.once.Do(func() {
		e.err = err
		close(e.ended)
	})
}
