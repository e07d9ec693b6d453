// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
)

// slowReader reads nothing of its answer until rest is closed.
type slowReader struct {
	*httptest.ResponseRecorder
	begun chan<- struct{}
	rest  <-chan struct{}
}

func (s slowReader) Write(text []byte) (int, error) {
	s.begun <- struct{}{}
	<-s.rest
	return s.ResponseRecorder.Write(text)
}

// However many operators read large limits slowly, the daemon holds a bounded part of what they have
// yet to read. It tells the others when to come again, and no other reader waits for a slow one.
func TestLargeAnswersToSlowReadersAreBounded(t *testing.T) {
	s := start(t, rights)
	text := "limits:\n  - {key: a, limit: 1/s, algorithm: even}\n" + strings.Repeat("  # "+strings.Repeat("x", 59)+"\n", 8<<20/64)
	s.must(t, 201, ``, "PUT", "/v1/limits?message=large", text, "If-Match", `"0"`)
	snapshot, err := dynamicconfig.Parse("limits", []byte(text))
	if err == nil {
		err = s.Limits.Set(snapshot)
	}
	if err != nil {
		t.Fatal(err)
	}
	const readers = 20
	begun, rest, answered := make(chan struct{}, readers), make(chan struct{}), make(chan *httptest.ResponseRecorder)
	read := func(w http.ResponseWriter) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/limits", http.NoBody)
		r.Header.Set("Authorization", "Bearer reader-token")
		s.ServeHTTP(w, r)
	}
	for range readers {
		go func() {
			w := httptest.NewRecorder()
			read(slowReader{w, begun, rest})
			answered <- w
		}()
	}
	for range readers {
		<-begun
	}
	s.must(t, 200, "changes", "POST", "/v1/limits/check", text)
	s.must(t, 200, `"name":"root"`, "GET", "/v1/me", "")
	w := httptest.NewRecorder()
	if read(w); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "10" || w.Header().Get("ETag") != "" || !strings.Contains(w.Body.String(), "ask again in 10 seconds") {
		t.Errorf("%d, %v: %.100s", w.Code, w.Header(), w.Body)
	}
	close(rest)
	whole := 0
	for range readers {
		switch w := <-answered; w.Code {
		case http.StatusOK:
			whole++
		case http.StatusServiceUnavailable:
		default:
			t.Error(w.Code)
		}
	}
	if whole == 0 || whole > 8 {
		t.Errorf("%d answers of 8 MiB were held at once", whole)
	}
	s.must(t, 200, `"in_force":true`, "GET", "/v1/limits", "")
}

// A client may leave out large texts, and limit how many changes it gets.
func TestATextAndChangesThatAreNotWantedAreLeftOut(t *testing.T) {
	s := start(t, rights)
	s.must(t, 201, ``, "PUT", "/v1/limits?message=first", firstText, "If-Match", `"0"`)
	s.must(t, 200, `"text":"limits:`, "GET", "/v1/limits?text=100000", "")
	size := fmt.Sprintf(`"size":%d`, len(firstText))
	for _, path := range []string{"/v1/limits?text=0", "/v1/limits/history/1?text=100&changes=2"} {
		if got := s.must(t, 200, size, "GET", path, ""); strings.Contains(got, `"text":"limits`) {
			t.Errorf("%s: %s", path, got)
		}
	}
	got := s.must(t, 200, `"more":1`, "GET", "/v1/limits/history/1?changes=2", "")
	if !strings.Contains(got, "billing") || strings.Contains(got, `people:*\" added`) {
		t.Error(got)
	}
	s.must(t, 400, "write a whole number", "GET", "/v1/limits?text=some", "")
	s.must(t, 400, "write a whole number", "GET", "/v1/limits/history/1?changes=-1", "")
}
