// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Suggestions that leave keys out, or are without some members, say so.
func TestSuggestionsSayWhatTheyLack(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"suggestions": [{"key": "a"}]}`:              "",
		`{"suggestions": [{"key": "a"}], "silent": 1}`: "1 member does not answer, so what happened there is in no peak, and a limit may have to be higher\n",
		`{"suggestions": [{"key": "a"}], "more": 7}`:   "these are the keys that were used most, and there are 7 more: -n 200 lists more, --like chooses\n",
		`{"suggestions": []}`:                          "no such key was used during the last hour\n",
	} {
		daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
		out, said, err := execute(t, "limits", "suggest", "--admin", strings.TrimPrefix(daemon.URL, "http://"))
		daemon.Close()
		if err != nil || said != want || !strings.HasPrefix(out, "KEY") {
			t.Errorf("%s: %q, %q, %v", answer, out, said, err)
		}
	}
}
