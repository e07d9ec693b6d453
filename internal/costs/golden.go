// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Golden is the file of what is expected.
type Golden struct {
	// Counted says with what instructions were counted, as [Toolchain] does.
	Counted string

	// Operations are in the order of the file.
	Operations []Operation
}

// Operation is one row.
type Operation struct {
	Name    string
	Per     string // the unit
	Figures Figures
}

// Find returns the figures of the operation called name, or nil.
func (g *Golden) Find(name string) Figures {
	for _, o := range g.Operations {
		if o.Name == name {
			return o.Figures
		}
	}
	return nil
}

const goldenHead = `# What operations cost, per unit. See package costs; make costs writes it anew.
# Allowed to differ: allocs and wire not at all, all others by 3%.
`

// WriteTo writes g as text.
func (g *Golden) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%scounted: %s\n\n", goldenHead, g.Counted)
	fmt.Fprintf(&b, "%-40s %-9s", "operation", "per")
	for _, k := range Kinds {
		fmt.Fprintf(&b, " %12s", k)
	}
	b.WriteByte('\n')
	for _, o := range g.Operations {
		fmt.Fprintf(&b, "%-40s %-9s", o.Name, o.Per)
		for _, k := range Kinds {
			text := "-"
			if v, ok := o.Figures[k]; ok {
				text = format(v)
			}
			fmt.Fprintf(&b, " %12s", text)
		}
		b.WriteByte('\n')
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

// ReadGolden reads what WriteTo wrote.
func ReadGolden(r io.Reader) (*Golden, error) {
	g := new(Golden)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if counted, ok := strings.CutPrefix(line, "counted: "); ok {
			g.Counted = counted
			continue
		}
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "operation" || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) != 2+len(Kinds) {
			return nil, fmt.Errorf("line %d: %d fields, want %d", n, len(fields), 2+len(Kinds))
		}
		o := Operation{Name: fields[0], Per: fields[1], Figures: make(Figures)}
		for i, k := range Kinds {
			if fields[2+i] == "-" {
				continue
			}
			v, err := strconv.ParseFloat(fields[2+i], 64)
			if err != nil {
				return nil, fmt.Errorf("line %d: %s: %w", n, k, err)
			}
			o.Figures[k] = v
		}
		if g.Find(o.Name) != nil {
			return nil, fmt.Errorf("line %d: %s stands twice", n, o.Name)
		}
		g.Operations = append(g.Operations, o)
	}
	return g, lines.Err()
}

// format keeps six digits: less would hide one allocation of thousands.
func format(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// round is v as the file has it.
func round(v float64) float64 {
	r, _ := strconv.ParseFloat(format(v), 64)
	return r
}
