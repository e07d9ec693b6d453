// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
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
