// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The commands of docs/edges.md do what it says.
func TestCostsAfterwardsWithCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("there is no curl")
	}
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, `limits: [{key: "llm:*", limit: 1/h, burst: 1000, algorithm: even}]`)
	p := serving(t, "--limits", limits, "--http", "127.0.0.1:0")
	p.ready(t)
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := strings.Fields(line)[1]
	reservation := ""
	for _, tc := range []struct {
		command   string
		remaining float64 // as the answer has it; 0: it has none
	}{
		{`curl --json '{"key": "llm:alice", "cost": 800}' http://127.0.0.1:7935/v1/reserve`, 200},
		{`curl --json '{"reservation": "RESERVATION", "cost": 512}' http://127.0.0.1:7935/v1/settle`, 0},
		{`curl --json '{"key": "llm:alice", "cost": 60}' http://127.0.0.1:7935/v1/charge`, 428},
	} {
		command := strings.NewReplacer("127.0.0.1:7935", address, "RESERVATION", reservation, "curl ", "curl --silent --fail-with-body ").Replace(tc.command)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
		var answer struct {
			Remaining   float64
			Reservation string
		}
		if err != nil || json.Unmarshal(out, &answer) != nil || answer.Remaining != tc.remaining {
			t.Fatalf("%s: %v, %s", command, err, out)
		}
		reservation = answer.Reservation
	}
}
