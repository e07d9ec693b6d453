// SPDX-License-Identifier: Apache-2.0

// Package decode reads config files: it walks their YAML, and hands each field to package build.
//
//	r := decode.Parse(data)
//	err := r.Problems.Err(…) // each with its place in r.Text
//	r.Content                // what the file says
//
// Out of scope: what a field may be (package build), and the YAML itself (package strictyaml).
package decode
