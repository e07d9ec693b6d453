// SPDX-License-Identifier: Apache-2.0

package retry_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/rpc/middleware/retry"
)

var errFull = errors.New("full")

func newRetrier(t *testing.T, o retry.Options) *retry.Retrier {
	t.Helper()
	r, err := retry.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// waits makes a call that is throttled each time, and returns how long it was
// waited for each retry.
func waits(t *testing.T, ctx context.Context, r *retry.Retrier, after time.Duration) (waits []time.Duration, err error) {
	t.Helper()
	var last time.Time
	err = r.Do(ctx, func(context.Context) error {
		if !last.IsZero() {
			waits = append(waits, time.Since(last))
		}
		last = time.Now()
		return retry.After(errFull, after)
	})
	return waits, err
}

func TestWaitsAreSpreadOverAllOfAnIntervalThatDoublesUpToMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRetrier(t, retry.Options{Base: 100 * time.Millisecond, Max: 300 * time.Millisecond, Tries: 5, Spare: 1e6})
		most := []time.Duration{100, 200, 300, 300}
		const calls = 2000
		sum, low, high := make([]time.Duration, 4), []int{0, 0, 0, 0}, []int{0, 0, 0, 0}
		for range calls {
			ws, err := waits(t, t.Context(), r, 0)
			if err != errFull || len(ws) != 4 { //nolint:errorlint // it is not wrapped
				t.Fatalf("%v, %v", ws, err)
			}
			for i, w := range ws {
				longest := most[i] * time.Millisecond
				if w < 0 || w > longest {
					t.Fatalf("waits %v before retry %d; want at most %v", w, i+1, longest)
				}
				sum[i] += w
				if w < longest/10 {
					low[i]++
				}
				if w > longest*9/10 {
					high[i]++
				}
			}
		}
		for i := range sum {
			mean := float64(sum[i]) / calls / float64(most[i]*time.Millisecond)
			if math.Abs(mean-0.5) > 0.04 || math.Abs(float64(low[i]-calls/10)) > 80 || math.Abs(float64(high[i]-calls/10)) > 80 {
				t.Errorf("retry %d: the mean is %.3f of the longest; %d in the lowest tenth and %d in the highest", i+1, mean, low[i], high[i])
			}
		}
	})
}

func TestNobodyComesBeforeTheServerSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRetrier(t, retry.Options{Base: time.Millisecond, Tries: 3})
		ws, _ := waits(t, t.Context(), r, 20*time.Second)
		if len(ws) != 2 || ws[0] < 20*time.Second || ws[0] > 20*time.Second+time.Millisecond || ws[1] > 20*time.Second+2*time.Millisecond || ws[0] == ws[1] {
			t.Errorf("waits %v", ws)
		}
		began := time.Now()
		if ws, err := waits(t, t.Context(), r, time.Minute+1); len(ws) != 0 || !errors.Is(err, errFull) || time.Since(began) != 0 {
			t.Errorf("waits %v for more than MaxAfter: %v", ws, err)
		}
	})
}

func TestOnlyThrottledCallsComeAgain(t *testing.T) {
	r := newRetrier(t, retry.Options{Base: time.Microsecond})
	for _, end := range []error{nil, errFull, context.Canceled} {
		tries := 0
		err := r.Do(t.Context(), func(context.Context) error {
			if tries++; tries < 3 {
				return retry.After(errFull, 0)
			}
			return end
		})
		if err != end || tries != 3 { //nolint:errorlint // it is not wrapped
			t.Errorf("%v after %d tries; want %v after 3", err, tries, end)
		}
	}
	one := newRetrier(t, retry.Options{Tries: 1})
	if ws, err := waits(t, t.Context(), one, 0); len(ws) != 0 || !errors.Is(err, errFull) {
		t.Errorf("%v, %v", ws, err)
	}
}

func TestRetriesEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRetrier(t, retry.Options{Base: time.Millisecond})
		began := time.Now()
		soon, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if ws, err := waits(t, soon, r, 4*time.Second); len(ws) != 0 || !errors.Is(err, errFull) || time.Since(began) != 0 {
			t.Errorf("waits in vain: %v, %v", ws, err)
		}
		stopping := errors.New("stopping")
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { stop(stopping) })
		ws, err := waits(t, ctx, r, 4*time.Second)
		if len(ws) != 0 || !errors.Is(err, stopping) || !errors.Is(err, errFull) || time.Since(began) != time.Second {
			t.Errorf("%v, %v after %v", ws, err, time.Since(began))
		}
		if ws, err := waits(t, ctx, r, 0); len(ws) != 0 || !errors.Is(err, stopping) {
			t.Errorf("%v, %v", ws, err)
		}
	})
}

// 1000 calls at once, all throttled: the budget is a tenth of them, and what
// was spare.
func TestRetriesOfAllCallsShareABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRetrier(t, retry.Options{Ratio: 0.1, Spare: 20})
		var tries atomic.Int64
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				_ = r.Do(t.Context(), func(context.Context) error {
					tries.Add(1)
					return retry.After(errFull, 0)
				})
			})
		}
		all.Wait()
		if got := tries.Load() - 1000; got < 100 || got > 120 {
			t.Errorf("%d retries of 1000 calls; want 100 to 120", got)
		}
		for range 300 { // the budget has no more than Spare, however many are well
			if err := r.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		tries.Store(0)
		for range 30 {
			_ = r.Do(t.Context(), func(context.Context) error { tries.Add(1); return retry.After(errFull, 0) })
		}
		if got := tries.Load() - 30; got < 20 || got > 23 {
			t.Errorf("%d retries after a quiet time; want 20 to 23", got)
		}
	})
}

func TestWhatServersSay(t *testing.T) {
	const date = "Tue, 15 Nov 1994 08:12:31 GMT"
	for _, row := range []struct {
		code      int
		field     string
		date      string
		throttled bool
		after     time.Duration
	}{
		{429, "", "", true, 0},
		{429, "0", "", true, 0},
		{429, " 7 ", "", true, 7 * time.Second},
		{503, "120", "", true, 2 * time.Minute},
		{429, "-1", "", true, 0},
		{429, "1.5", "", true, 0},
		{429, "soon", "", true, 0},
		{429, "18446744073709551615", "", true, 2 * retry.MaxTime},
		{429, "99999999999999999999999999", "", true, 2 * retry.MaxTime},
		{429, "Tue, 15 Nov 1994 08:13:01 GMT", date, true, 30 * time.Second},
		{429, "Tue, 15 Nov 1994 08:12:01 GMT", date, true, 0},
		{429, "Tue, 15 Nov 1994 08:13:01 GMT", "", true, 0},
		{500, "7", "", false, 0},
		{404, "", "", false, 0},
	} {
		resp := &http.Response{StatusCode: row.code, Header: http.Header{}}
		resp.Header.Set("Retry-After", row.field)
		resp.Header.Set("Date", row.date)
		err := retry.Response(resp)
		var throttled *retry.Throttled
		var status *retry.StatusError
		if !errors.As(err, &status) || status.Code != row.code || !strings.Contains(err.Error(), http.StatusText(row.code)) {
			t.Errorf("%+v: %v", row, err)
		}
		if errors.As(err, &throttled) != row.throttled || row.throttled && throttled.After != row.after {
			t.Errorf("%+v: %+v", row, throttled)
		}
	}
	for _, code := range []int{200, 204, 304} {
		if err := retry.Response(&http.Response{StatusCode: code}); err != nil {
			t.Errorf("%d: %v", code, err)
		}
	}
}

func TestWhatTrailersSay(t *testing.T) {
	for _, row := range []struct {
		fields    []string
		throttled bool
		after     time.Duration
	}{
		{nil, true, 0},
		{[]string{"250"}, true, 250 * time.Millisecond},
		{[]string{"0"}, true, 0},
		{[]string{"9223372036854775807"}, true, 2 * retry.MaxTime},
		{[]string{"-1"}, false, 0},
		{[]string{"soon"}, false, 0},
		{[]string{""}, false, 0},
		{[]string{"1", "2"}, false, 0},
	} {
		trailer := metadata.MD{}
		trailer.Append("Grpc-Retry-Pushback-Ms", row.fields...)
		err := retry.Pushback(errFull, trailer)
		var throttled *retry.Throttled
		if !errors.Is(err, errFull) || errors.As(err, &throttled) != row.throttled || row.throttled && throttled.After != row.after {
			t.Errorf("%v: %+v", row, err)
		}
	}
	if err := errors.Join(retry.After(nil, 1), retry.Pushback(nil, nil)); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestMistakesInOptionsAreToldAtOnce(t *testing.T) {
	_, err := retry.New(retry.Options{Base: -1, Max: 2 * retry.MaxTime, Tries: -1, MaxAfter: -1, Ratio: math.NaN(), Spare: math.Inf(1)})
	for _, want := range []string{"Base of -1ns", "Max of 48h", "-1 Tries", "MaxAfter of -1ns", "Ratio of NaN", "Spare of +Inf"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	for _, o := range []retry.Options{{Base: time.Minute}, {Base: time.Microsecond, Max: time.Microsecond, Tries: retry.MaxTries, Ratio: 1, Spare: 1}, {MaxAfter: retry.MaxTime}} {
		if _, err := retry.New(o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := retry.New(retry.Options{Base: time.Second, Max: time.Millisecond}); err == nil {
		t.Error("a Max below Base is taken")
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("7", "")
	f.Add("Tue, 15 Nov 1994 08:13:01 GMT", "Tue, 15 Nov 1994 08:12:31 GMT")
	f.Fuzz(func(t *testing.T, field, date string) {
		resp := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {field}, "Date": {date}}}
		for _, err := range []error{retry.Response(resp), retry.Pushback(errFull, map[string][]string{"grpc-retry-pushback-ms": {field}})} {
			var throttled *retry.Throttled
			if errors.As(err, &throttled) && throttled.After < 0 {
				t.Errorf("%q: come again after %v", field, throttled.After)
			}
		}
	})
}
