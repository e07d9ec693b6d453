// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// mode is the value of a flag: permissions, in octal digits.
type mode fs.FileMode

func (m *mode) String() string {
	if *m == 0 {
		return ""
	}
	return fmt.Sprintf("%#o", uint32(*m))
}

func (m *mode) Set(text string) error {
	bits, err := strconv.ParseUint(text, 8, 32)
	if err != nil || bits == 0 || bits > 0o777 {
		return errors.New("write octal digits, as in 0660")
	}
	*m = mode(bits)
	return nil
}

func (m *mode) Type() string { return "permissions" }
