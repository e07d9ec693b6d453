// SPDX-License-Identifier: Apache-2.0

package simredis

import (
	"os"
	"os/exec"
	"testing"

	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/world"
)

// One bucket is the oracle, whoever asks it.
func TestARealRedisIsTheOracle(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("there is no redis-server: sh scripts/redis.sh --install")
	}
	t.Chdir("../../..")
	server, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	sc, err := scenario.Load("low-limit")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(2) {
		r, err := world.Options{Algorithm: Name, Seed: seed, Elsewhere: server.Elsewhere()}.Run(t.Context(), sc)
		if err != nil {
			t.Fatal(err)
		}
		if m := r.Whole().Metrics; m.UtilisationPct < 99.99 || m.UtilisationPct > 100.01 || m.FalseRejectPct != 0 || m.OverPct != 0 {
			t.Errorf("seed %d: %+v", seed, m)
		}
	}
}
