// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/headgate/headgate/internal/spelling"
)

// OneOf joins words as "a, b or c".
func OneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Quote puts text from outside between quotes for a message: in one line,
// escaped, and cut to a length that fits.
func Quote(text string) string {
	const most = 60
	if len(text) > most {
		return fmt.Sprintf("%q...", text[:most])
	}
	return fmt.Sprintf("%q", text)
}

// Suggest says which of the known names may have been meant.
func Suggest(name string, known []string) string {
	if best := spelling.Nearest(name, known); best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "use " + OneOf(known)
}

// Scalar is text as YAML that reads back as the same text, in double quotes.
// What cannot be seen is escaped. text is UTF-8.
func Scalar(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// ParseNumber reads a decimal number, with a fraction and an exponent if
// need be. Go's other forms (hexadecimal, underscores) are refused; NaN and
// Inf are read, for the caller to refuse by their own name.
func ParseNumber(text string) (float64, error) {
	if strings.ContainsAny(text, "xXpP_") {
		return 0, errors.New("not a decimal number")
	}
	f, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) {
		return f, nil // ±Inf, refused as such
	}
	return f, err
}

// Number writes f the shortest way that reads back as f.
func Number(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	s = strings.Replace(s, "e+", "e", 1)
	return strings.Replace(s, "e-0", "e-", 1)
}
