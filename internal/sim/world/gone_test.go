// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"testing"
)

// A process ends while some of its decisions wait for the owner. They end too.
func TestDecisionsEndWithTheirProcess(t *testing.T) {
	for ms := 20; ms <= 300; ms += 20 {
		run(t, parse(t, fmt.Sprintf(`
name: gone
duration: 3s
hosts: 3
network: {latency: 30ms, jitter: 50ms}
limits: [{key: "k:k", limit: 100/s, burst: 200, algorithm: auto, ask_timeout: 1s}]
traffic: [{key: "k:k", total: 300/s}]
events:
  - {at: 1s, do: restart, hosts: all, for: 500ms}
  - {at: %dms, do: crash, hosts: all, for: 1s}
`, 1500+ms)), "auto", 1)
	}
}
