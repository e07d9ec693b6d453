// SPDX-License-Identifier: Apache-2.0

package toptui

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/headgate/headgate/internal/printable"
)

// Print prints p in two tables of text: the keys in the order of q, and the hosts.
func Print(out io.Writer, p *Picture, q Query) error {
	fmt.Fprintf(out, "%s\n\n", summary(p))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tRULE\tLIMIT\tUSED/S\tREFUSED/S\tUSE\tHOSTS\tFALLBACK\tLAST MINUTE")
	for _, k := range keysOf(p, q.Sort, q.Like) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", printable.Text(k.Key), printable.Text(k.Rule), limit(&k),
			rate(k.Allowed), rate(k.Rejected), percent(k.Utilization), k.Hosts, k.Fallback, "▕"+spark(&k, 30)+"▏")
	}
	fmt.Fprintln(w, "\nHOST\tSTATE\tFOR\tSHARE\tKEYS\tFALLBACK\tUSED/S\tREFUSED/S\tWHY")
	for _, h := range hostsOf(p, "name", "") {
		fmt.Fprintln(w, tabbed(hostCells(&h, p.At)))
	}
	return w.Flush()
}

func tabbed(cells []string) (line string) {
	for i, c := range cells {
		if i > 0 {
			line += "\t"
		}
		line += c
	}
	return line
}
