// SPDX-License-Identifier: Apache-2.0

// Package printable makes text for people. Text of strangers, such as keys, is safe to print in
// a terminal:
//
//	fmt.Println(printable.Text(key)) // "a\x1b[2Jb" is printed as a\x1b[2Jb, and clears no screen
//
// Out of scope: where else text goes. JSON and HTML have escapes of their own.
package printable

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text is s, in which everything that is no letter, mark, number, punctuation, symbol or
// plain space is escaped as Go does: control characters, invalid UTF-8, and what is invisible
// or changes the direction of text. A backslash is escaped if something else is, so that no
// two texts look the same because of it.
func Text(s string) string {
	plain := true
	for i, r := range s {
		if !strconv.IsPrint(r) || r == utf8.RuneError && invalid(s[i:]) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && invalid(s[i:]):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\\':
			b.WriteString(`\\`)
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// invalid reports whether s begins with a byte that is no UTF-8.
func invalid(s string) bool {
	_, size := utf8.DecodeRuneInString(s)
	return size == 1
}

// Lines is Text of each line of s.
func Lines(s string) []string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, line := range lines {
		lines[i] = Text(line)
	}
	return lines
}

// Count is a number of things: 1 host, 2 hosts.
func Count[N ~int | ~int64](n N, one, more string) string {
	if n != 1 {
		one = more
	}
	return strconv.FormatInt(int64(n), 10) + " " + one
}

// Number is v with so many digits, or with all before the point if these are more: 12345 with 3 digits, not 1.23e+04.
func Number(v float64, digits int) string {
	if math.Abs(v) >= math.Pow10(digits)-0.5 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}

// Part is v of all in percent, as in 12.5%. It is 0% if all is not above 0.
func Part(v, all float64) string {
	if all <= 0 {
		return "0%"
	}
	return strconv.FormatFloat(100*v/all, 'f', 1, 64) + "%"
}
