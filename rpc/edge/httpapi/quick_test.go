// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
)

func TestQuickReadsTheUsual(t *testing.T) {
	for body, want := range map[string]bool{
		`{"key":"k"}`: true,
		" {\n\t\"max_wait_ms\" : 0 ,\r \"cost\":-999999999999999999, \"key\":\"é\"} ": true,
		`{"key":""}`: true,
		`{"cost":1}`: true,
		``:           false, `{}`: false, `{"key":"k",}`: false, `{"key":"k"`: false, `{"key":"k"}x`: false, `{"key":"\u0041"}`: false,
		`{"key":"k","key":"l"}`: false, `{"cost":1,"cost":1}`: false, `{"cost":01}`: false, `{"cost":1.0}`: false, `{"cost":1e1}`: false,
		`{"cost":-}`: false, `{"cost":1000000000000000000}`: false, `{"KEY":"k"}`: false, `{"requests":[]}`: false, "{\"key\":\"\n\"}": false,
		`{"key" "k"}`: false, `{"key":k}`: false, `{"key":null}`: false, `["key"]`: false, `{"key":"k}`: false,
	} {
		if _, ok := quick([]byte(body)); ok != want {
			t.Errorf("%s: %v", body, ok)
		}
	}
}

// What quick reads, the JSON library reads the same way.
func FuzzQuick(f *testing.F) {
	for _, body := range []string{`{"key":"k","cost":-0,"max_wait_ms":12}`, `{"cost": 0}`, ` {"key":"é"} `, `{"key":"k","cost":00}`, `{"key":"\u0000"}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		q, ok := quick(body)
		if !ok {
			return
		}
		want, err := parse(body)
		if err != nil {
			if err.Error() != "it is not UTF-8" {
				t.Fatalf("%q is read, though %v", body, err)
			}
			return
		}
		if !reflect.DeepEqual(q, want) {
			t.Fatalf("%q: %+v, want %+v", body, q, want)
		}
	})
}

// What is written by hand is what the JSON library reads.
func TestResultsAreWrittenAsJSON(t *testing.T) {
	numbers := []*float64{nil, new(0.0), new(math.Copysign(0, -1)), new(1.0), new(-3.0), new(0.1), new(1e-7), new(1e12), new(float64(1 << 53)), new(1e21), new(1e300), new(-1.5)}
	whole := []*int64{nil, new(int64(0)), new(int64(math.MaxInt64))}
	for _, x := range numbers {
		for _, y := range numbers {
			for _, n := range whole {
				want := result{Allowed: n == nil, Reason: "too-costly", Cost: math.MinInt64, WaitMS: n, RetryAfterMS: n, Limit: x, Burst: y, Remaining: x}
				text := want.appendJSON(nil)
				var got result
				if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %v", text, err)
				}
			}
		}
	}
}
