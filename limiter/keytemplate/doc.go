// SPDX-License-Identifier: Apache-2.0

// Package keytemplate makes keys out of what a request says of itself: who
// calls, from where, for what.
//
//	t, err := keytemplate.Parse("login:{header.x-user}:{ip/24}:{method}")
//	…
//	key, err := t.Key(func(name string) (string, bool) { … })
//	// login:alice:192.0.2.0/24:POST
//
// In braces stands the name of an attribute; which there are is the business
// of who calls Key. All else is literal.
//
//	{user}       the value; without one there is no key
//	{user?}      the value, or %- without one
//	{ip}         an IP address, with or without a port, in one way of writing
//	{ip/24}      its network: of 24 bits for IPv4, of 64 for IPv6
//	{ip/24,48}   of 24 bits for IPv4, of 48 for IPv6
//
// # What callers send is not to be trusted
//
// Different values make different keys, and never the key of another template
// or group: a template begins with literal text that has a `:`, there is one
// between any two attributes, and a value has none, because all but
//
//	A-Z a-z 0-9 . _ - @ + = ~ / ,
//
// becomes %XX. A value that takes more than 64 bytes so becomes %h and its
// hash, so a key has at most 1024 bytes, and long values that begin alike
// differ still. (A hash of 128 bits is the same on all hosts; who wants two
// values with the same one needs 2⁶⁴ tries.)
//
// Values that callers choose freely make as many keys as they like: give the
// rule of the keys a max_keys.
//
// # Out of scope
//
// Requests themselves. Adapters for HTTP and gRPC are beside their edges.
package keytemplate
