// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"context"

	"github.com/headgate/headgate/internal/demo"
)

func Run(ctx context.Context, play func(context.Context, func(demo.Frame)) (demo.Result, error)) (demo.Result, error) {
	return play(ctx, nil)
}
