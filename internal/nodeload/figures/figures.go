// SPDX-License-Identifier: Apache-2.0

// Package figures turns measurements into figures and tables for people. It does not
// know what was measured.
package figures

import (
	"fmt"
	"strings"
	"time"
)

// Thousands is n with commas.
func Thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plain is Markdown without its stars and backquotes.
func Plain(s string) string { return strings.NewReplacer("**", "", "`", "").Replace(s) }

// Header begins a table; the first column is of names.
func Header(b *strings.Builder, columns []string) {
	fmt.Fprintf(b, "| %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("--:|", len(columns)-1))
}

// Us is d in microseconds.
func Us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Ms is d in milliseconds.
func Ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Quantile of sorted is the least value that the part q of them does not
// exceed; 0 if there are none.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	for i := range sorted {
		if float64(i+1) >= q*float64(len(sorted)) {
			return sorted[i]
		}
	}
	return sorted[len(sorted)-1]
}
