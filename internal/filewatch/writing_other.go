// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package filewatch

import "os"

// writing reports whether any process has f open for writing. Here that is not known.
func writing(*os.File) bool { return false }
