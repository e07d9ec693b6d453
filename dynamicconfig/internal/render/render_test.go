// SPDX-License-Identifier: Apache-2.0

package render

import "testing"

func TestFieldsStandInTheirLines(t *testing.T) {
	var w Writer
	w.Fields("- ", "  ", func(yield func(string, any) bool) {
		_ = yield("key", "a: #1") && yield("limit", "5/s") && yield("burst", 2.0) && yield("shared", true) &&
			yield("max_keys", int64(7)) && yield("migrate", map[string]string{"to": "auto", "from": "even"}) &&
			yield("parameters", map[string]string{"b": "yes"})
	})
	const want = `- key: "a: #1"
  limit: 5/s
  burst: 2
  shared: true
  max_keys: 7
  migrate: {from: even, to: auto}
  parameters: {"b": "yes"}
`
	if got := w.String(); got != want {
		t.Errorf("written is\n%s\nwant\n%s", got, want)
	}
}
