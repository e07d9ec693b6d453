// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/scenario/nodes"
)

// decoder reads a scenario.
type decoder struct{ *nodes.Decoder }

// perSecond is a rate as limits write it, such as 10/s or 5/m.
func (d decoder) perSecond(who string, to *float64) func(ast.Node) {
	return d.Reader(who, func(text string) (err error) {
		*to, err = parseRate(text)
		return err
	})
}

func parseRate(text string) (float64, error) {
	v, err := dynamicconfig.ParseLimit(text)
	if err != nil {
		return 0, err
	}
	if !(v >= 0 && v <= MaxRate) {
		return 0, fmt.Errorf("%s is out of range: write 0/s to %g/s", text, float64(MaxRate))
	}
	return float64(v), nil
}

func (d decoder) hosts(who string, to *Selection, s *Scenario) func(ast.Node) {
	return func(n ast.Node) {
		var words []string
		if list, ok := n.(*ast.SequenceNode); ok {
			for _, v := range list.Values {
				if word, ok := d.Scalar(v, who); ok {
					words = append(words, word)
				}
			}
		} else if word, ok := d.Scalar(n, who); ok {
			words = append(words, word)
		}
		if len(words) == 0 {
			return
		}
		var err error
		if *to, err = selection(strings.Join(words, ", "), s); err != nil {
			d.Fail(n, "%s: %v", who, err)
		}
	}
}
