// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/algorithm"
)

// againAfter is for how long a weigher is not called that did not return in time.
const againAfter = 10 * time.Second

// errHangs is why a weigher is not called that did not return in time.
var errHangs = fmt.Errorf("the weigher did not return within %v: it is called again %v later, but not before it has returned", returnsWithin, againAfter)

// Weighers bounds how long the weighers of services take, by name. A weigher is one, on whichever
// accounts. The zero Weighers is ready to use. It is safe for concurrent use.
type Weighers struct {
	all sync.Map // to *weigher, by name
}

// Bounded returns w, the weigher called name, with or without its account. Its Weigh panics when it ends
// its goroutine, or after a second. It goes on by itself then, and keeps no lock and no memory of its
// caller. The weighers that come with headgate are returned as they are.
func (ws *Weighers) Bounded(name string, w algorithm.Weigher) algorithm.Weigher {
	if w.Form == algorithm.FormPlain {
		one, _ := ws.all.LoadOrStore(name[strings.LastIndexByte(name, '/')+1:], &weigher{weigh: w.Weigh})
		w.Weigh = one.(*weigher).call //nolint:errcheck // nothing else is stored
	}
	return w
}

// weigher is one Weigh of a service.
type weigher struct {
	weigh algorithm.Weigh

	mu    sync.Mutex // protects following fields
	hang  int        // how many calls did not return in time, and still run
	again time.Time  // not called before
}

// hangs notes that n more calls, or fewer, do not return.
func (w *weigher) hangs(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.hang += n; n > 0 {
		w.again = time.Now().Add(againAfter)
	}
}

// rests reports whether weigh is not called now.
func (w *weigher) rests() bool {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.hang > 0 || !w.again.IsZero() && time.Now().Before(w.again)
}

// call is weigh on another goroutine.
func (w *weigher) call(capacity float64, demands []algorithm.Demand, parts []float64) {
	if w.rests() {
		panic(errHangs)
	}
	made, done := make([]float64, len(parts)), make(chan struct{})
	err := errors.New("the weigher ended its goroutine")
	go func() {
		defer close(done)
		err = safely(func() error { w.weigh(capacity, demands, made); return nil })
	}()
	select {
	case <-done:
		if err != nil {
			panic(err)
		}
		copy(parts, made)
	case <-time.After(returnsWithin):
		w.hangs(1)
		go func() { <-done; w.hangs(-1) }()
		panic(errHangs)
	}
}
