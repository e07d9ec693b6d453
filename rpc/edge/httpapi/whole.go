// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// whole is a whole number in a body, however JSON writes it: 1000, 1000.0 or 1e3. Programs
// whose numbers are all floats write the latter, and openapi.json allows them, as JSON
// Schema says that 1.0 is an integer.
type whole int64

// UnmarshalJSON reads text, which is one JSON value.
func (n *whole) UnmarshalJSON(text []byte) error {
	if v, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*n = whole(v)
		return nil
	}
	wrong := &json.UnmarshalTypeError{Type: reflect.TypeFor[int64]()}
	switch text[0] {
	case '"':
		wrong.Value = "string"
	case 't', 'f':
		wrong.Value = "bool"
	case '[':
		wrong.Value = "array"
	case '{':
		wrong.Value = "object"
	default:
		v, err := strconv.ParseFloat(string(text), 64)
		if err == nil && v == math.Trunc(v) && math.Abs(v) < exact {
			*n = whole(v)
			return nil
		}
		wrong.Value = numberPrefix + string(text)
	}
	return wrong
}

const (
	exact        = 1 << 53 // from here on, floats leave whole numbers out
	numberPrefix = "number "
)

// toWrite is what to write instead of value, as a json.UnmarshalTypeError has it; "" if that is no whole number.
func toWrite(value string) string {
	text, isNumber := strings.CutPrefix(value, numberPrefix)
	v, err := strconv.ParseFloat(text, 64)
	if !isNumber || err != nil || v != math.Trunc(v) || math.Abs(v) >= 1<<63 || !strings.ContainsAny(text, ".eE") {
		return ""
	}
	return fmt.Sprintf("from %d on, write a whole number in digits alone, without a point or an exponent", int64(exact))
}
