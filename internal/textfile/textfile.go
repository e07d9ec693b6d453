// SPDX-License-Identifier: Apache-2.0

// Package textfile reads files of text as editors of other systems write them: settings, limits,
// policies, tokens, passwords, keys and certificates.
//
//	text, err := textfile.Text(bytes)
//	token, err := textfile.FirstLine(text)
//
// Out of scope: where the bytes come from, and what the text means.
package textfile

import (
	"bytes"
	"errors"
)

// mark is what some editors begin a file of UTF-8 with. It is no part of the text.
var mark = []byte("\ufeff")

// errWide is the error of a file with two bytes or four for each character.
var errWide = errors.New("the file is UTF-16, as PowerShell writes it: save it as UTF-8")

// Text returns the text that data, of a whole file, has: data without a byte order mark. It
// refuses UTF-16 and UTF-32, whose marks it knows.
func Text(data []byte) ([]byte, error) {
	for _, wide := range []string{"\xff\xfe", "\xfe\xff", "\x00\x00\xfe\xff"} {
		if bytes.HasPrefix(data, []byte(wide)) {
			return nil, errWide
		}
	}
	return bytes.TrimPrefix(data, mark), nil
}

// errBlank is the error of a first line with nothing.
var errBlank = errors.New("its first line is blank")

// FirstLine returns the first line of text, without the end of the line, or an error if that is
// blank: an empty token or password is most likely of a file that was not written.
func FirstLine(text []byte) (string, error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(bytes.TrimSpace(line)) == 0 {
		return "", errBlank
	}
	return string(line), nil
}
