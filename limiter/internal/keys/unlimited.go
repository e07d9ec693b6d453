// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"context"
	"math"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/stage"
)

// unlimited is a stage that allows everything and counts nothing.
type unlimited struct{}

// Take implements stage.Stage.
func (unlimited) Take(context.Context, stage.Request) (stage.Verdict, stage.Receipt) {
	return stage.Verdict{Left: math.Inf(1)}, stage.Receipt{}
}

// Settle implements stage.Stage.
func (unlimited) Settle(stage.Instant, stage.Receipt, int64) {}

// Cap implements stage.Stage.
func (unlimited) Cap(stage.Instant, float64) {}

// Level implements stage.Stage.
func (unlimited) Level(stage.Instant) stage.Level {
	return stage.Level{Limit: rate.Inf, Burst: math.Inf(1), Tokens: math.Inf(1)}
}

// bypassed is a stage under an override that lets everything through. Nothing is taken
// from the stage that it hides, which goes on once the override has ended.
type bypassed struct{ stage.Stage }

// Take implements stage.Stage.
func (bypassed) Take(context.Context, stage.Request) (stage.Verdict, stage.Receipt) {
	return stage.Verdict{Answer: stage.Answer{Reason: stage.Bypassed}, Left: math.Inf(1)}, stage.Receipt{}
}

// Settle implements stage.Stage.
func (bypassed) Settle(stage.Instant, stage.Receipt, int64) {}
