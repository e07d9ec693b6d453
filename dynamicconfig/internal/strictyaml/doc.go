// SPDX-License-Identifier: Apache-2.0

// Package strictyaml reads config files that people wrote, and says of each
// mistake where it is and what to do.
//
//	f := strictyaml.NewFile(text, dialect)
//	root := f.Parse() // nil when it is no YAML that can be read
//	fields, ok := f.Mapping(root, "the file", known, later)
//	f.Add(strictyaml.Place(fields[0].Value), "…")
//	err := f.Err(func(m Mark, message, source string) error { … })
//
// It takes the YAML that config files need and no more, and bounds what
// hostile text costs: the YAML library recurses, and takes quadratic time
// for some texts. Only single values can be aliases.
//
// Out of scope: what fields there are, and what their values mean.
package strictyaml
