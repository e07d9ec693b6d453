// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"charm.land/lipgloss/v2"

	"github.com/headgate/headgate/internal/demo"
)

// palette is the styles of a view. Meaning never hangs on colour alone.
type palette struct {
	strong, faint    lipgloss.Style
	good, poor, over lipgloss.Style // near the limit, far below, above
	warn, dead       lipgloss.Style
}

// newPalette has colours that stand out from a dark or a light background.
func newPalette(dark bool) palette {
	pick := lipgloss.LightDark(dark)
	color := func(light, dark string) lipgloss.Style {
		return lipgloss.NewStyle().Foreground(pick(lipgloss.Color(light), lipgloss.Color(dark)))
	}
	return palette{
		strong: lipgloss.NewStyle().Bold(true),
		faint:  color("#6b7280", "#8b93a1"),
		good:   color("#0f7b3e", "#4ade80"),
		poor:   color("#b45309", "#fbbf24"),
		over:   color("#0369a1", "#38bdf8"),
		warn:   color("#b45309", "#fbbf24"),
		dead:   color("#b91c1c", "#f87171"),
	}
}

// ratio is the style of what was admitted ÷ the ideal.
func (p palette) ratio(r float64) lipgloss.Style {
	switch {
	case r > 1.03:
		return p.over
	case r >= 0.9:
		return p.good
	default:
		return p.poor
	}
}

// state is the style of a host's state.
func (p palette) state(s demo.State) lipgloss.Style {
	switch s {
	case demo.StateKilled:
		return p.dead
	case demo.StateFallback:
		return p.warn
	default:
		return p.good
	}
}
