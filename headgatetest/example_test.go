// SPDX-License-Identifier: Apache-2.0

package headgatetest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/headgate/headgate/headgatetest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
)

// hello is the handler under test.
func hello(limit *limiter.Limiter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if d := limit.Decide(r.Context(), 1, 0); !d.OK {
			w.Header().Set("Retry-After", fmt.Sprint(d.RetryAfter.Seconds()))
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}
}

// serve returns the status and the Retry-After of one request.
func serve(h http.Handler) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	return w.Code, w.Header().Get("Retry-After")
}

func ExampleAllowAll() {
	fmt.Println(serve(hello(headgatetest.AllowAll())))
	// Output: 200
}

func ExampleRefuseAll() {
	fmt.Println(serve(hello(headgatetest.RefuseAll())))
	// Output: 429 1
}

// A verdict of the test's own: the owner did not answer.
func ExampleFixed() {
	v := stage.Because(stage.Failed)
	v.RetryAfter = 3 * time.Second
	fmt.Println(serve(hello(headgatetest.Fixed(v))))
	// Output: 429 3
}

// Methods that take a time need no bubble.
func ExampleNewGroup() {
	var t inExample // in a test, its *testing.T
	login := headgatetest.NewGroup(t, `limits: [{key: "login:*", limit: 5/m, burst: 5}]`).For("login:ann")

	now := time.Now()
	for range 5 {
		login.AllowN(now, 1)
	}
	fmt.Println(login.AllowN(now, 1))
	fmt.Println(login.AllowN(now.Add(12*time.Second), 1))
	// Output:
	// false
	// true
}

// inExample stands for a *testing.T, which an example does not have.
type inExample struct{ headgatetest.TB }

// Helper implements headgatetest.TB.
func (inExample) Helper() {}
