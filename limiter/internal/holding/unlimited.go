// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"context"
	"math"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/stage"
)

// Unlimited is a stage that allows everything and counts nothing.
type Unlimited struct{}

// Take implements stage.Stage.
func (Unlimited) Take(context.Context, stage.Request) (stage.Verdict, stage.Receipt) {
	return stage.Verdict{Left: math.Inf(1)}, stage.Receipt{}
}

// Allow implements stage.Stage.
func (Unlimited) Allow(context.Context, stage.Instant) stage.Reason { return stage.Granted }

// Settle implements stage.Stage.
func (Unlimited) Settle(stage.Instant, stage.Receipt, int64) {}

// Cap implements stage.Stage.
func (Unlimited) Cap(stage.Instant, float64) {}

// Level implements stage.Stage.
func (Unlimited) Level(stage.Instant) stage.Level {
	return stage.Level{Limit: rate.Inf, Burst: math.Inf(1), Tokens: math.Inf(1)}
}

// Open implements stage.Stage.
func (Unlimited) Open() (open bool, changed []<-chan struct{}) { return true, nil }

// Bypassed is a stage under an override that lets everything through. Nothing is taken
// from the stage that it hides, which goes on once the override has ended.
type Bypassed struct{ stage.Stage }

// Take implements stage.Stage.
func (Bypassed) Take(context.Context, stage.Request) (stage.Verdict, stage.Receipt) {
	return stage.Verdict{Answer: stage.Answer{Reason: stage.Bypassed}, Left: math.Inf(1)}, stage.Receipt{}
}

// Allow implements stage.Stage.
func (Bypassed) Allow(context.Context, stage.Instant) stage.Reason { return stage.Bypassed }

// Settle implements stage.Stage.
func (Bypassed) Settle(stage.Instant, stage.Receipt, int64) {}

// Open implements stage.Stage.
func (Bypassed) Open() (open bool, changed []<-chan struct{}) { return true, nil }
