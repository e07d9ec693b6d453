// SPDX-License-Identifier: Apache-2.0

package asks

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/internal/nodeload/figures"
)

// Table is how long decisions that ask wait, as Markdown.
func (c Costs) Table() string {
	var b strings.Builder
	figures.Header(&b, []string{"", "median", "p99"})
	fmt.Fprintf(&b, "| a decision that the owner paid, one of %s | **%.2f ms** | **%.2f ms** |\n", figures.Thousands(c.Asks), c.AskP50Ms, c.AskP99Ms)
	fmt.Fprintf(&b, "| a call that says nothing, of the same size, in between | %.2f ms | %.2f ms |\n", c.CallP50Ms, c.CallP99Ms)
	fmt.Fprintf(&b, "| the first ÷ the second | %.2f | %.2f |\n", c.AskP50Ms/c.CallP50Ms, c.AskP99Ms/c.CallP99Ms)
	return b.String()
}

// GoneTable is how long decisions take without the owner, as Markdown.
func (c Costs) GoneTable() string {
	var b strings.Builder
	figures.Header(&b, []string{fmt.Sprintf("`ask_timeout: %gms`", c.TimeoutMs), "decisions", "waited for more than half of it", "longest", "p99 after the first second"})
	row := func(name string, g GoneCost) {
		fmt.Fprintf(&b, "| %s | %s | %d | %.1f ms | %.3f ms |\n", name, figures.Thousands(g.Decisions), g.Waited, g.LongestMs, g.LaterP99Ms)
	}
	row("the owner hangs", c.Hung)
	row("the owner has stopped", c.Stopped)
	return b.String()
}
