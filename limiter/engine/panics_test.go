// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/headgate/headgate/rpc"
)

// A panic about one ask of a batch reaches the caller, whose server answers it as that of
// any request. On a goroutine of the batch it would end the process.
func TestAPanicInABatchIsTheCallers(t *testing.T) {
	b := of(t, rules)
	for range 20 {
		func() {
			defer func() {
				if got, ok := recover().(*rpc.PanicError); !ok || got.Value != "a defect" || len(got.Stack) == 0 {
					t.Errorf("%+v", got)
				}
			}()
			b.each(100, func(i int) {
				if i%7 == 3 {
					panic("a defect")
				}
			})
			t.Error("it is lost")
		}()
	}
	if n := len(b.spare); n != 0 {
		t.Errorf("%d goroutines are missing", n)
	}
}
