// SPDX-License-Identifier: Apache-2.0

package retry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/headgate/headgate/rpc/middleware/retry"
)

func Example() {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls < 3 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, "served")
	}))
	defer server.Close()

	again, err := retry.New(retry.Options{Base: 10 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = again.Do(context.Background(), func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := server.Client().Do(request)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if err := retry.Response(resp); err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		fmt.Println(string(body), "at try", calls)
		return err
	})
	fmt.Println(err)
	// Output:
	// served at try 3
	// <nil>
}
