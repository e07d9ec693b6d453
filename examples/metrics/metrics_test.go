// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/headgatetest"
)

var counter = regexp.MustCompile(`(?m)^# TYPE (\S+) counter$`)

func TestCountersHaveTheNamesOfTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		option, handler, stop := measured(prometheus.NewRegistry())
		node := headgatetest.NewNode(t, `limits: [{key: "orders:*", limit: 10/s}]`, option)
		if !node.For("orders:eu").Allow() {
			t.Fatal("refused")
		}
		time.Sleep(time.Minute)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if want := `headgate_limiter_allowed_total{rule="orders:*"} 1`; !strings.Contains(w.Body.String(), want) {
			t.Errorf("there is no %s", want)
		}
		for _, m := range counter.FindAllStringSubmatch(w.Body.String(), -1) {
			if !strings.HasSuffix(m[1], "_total") {
				t.Errorf("the counter %s does not end in _total", m[1])
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
