// SPDX-License-Identifier: Apache-2.0

// Package keys builds the key of a request from its attributes, by a template:
//
//	t, err := keys.Parse("api:{header:X-Tenant}:{ip/24}")
//	key := t.Key(request) // api:acme:192.0.2.0
//
// What is between braces is an attribute of the request; the rest stands for
// itself. Which attributes there are, the interceptor says that knows the
// request; these are the usual ones:
//
//	{method}         GET, or /package.Service/Method of gRPC
//	{path}           of the URL, as the client wrote it; for gRPC as {method}
//	{route}          the pattern that the path matches; for gRPC as {method}
//	{header:NAME}    the first value of a header, or of gRPC's metadata
//	{ip}             the caller's address
//	{ip/24}          the network that the address is in; /24,64: 64 for IPv6
//	{user}           who the service says is calling
//
// Values come from outside. Bytes that a key gives a meaning to, such as the
// colon, are escaped in them, so that two requests have the same key only if
// all their attributes are the same; one that is too long is cut, and ends in a
// hash of all of it. A missing attribute is empty.
//
// Clients can write one path in many ways, such as /login, //login and /./login, and
// make as many keys as they like of paths that do not exist. {route} has one key for
// all paths of a route.
//
// {{ and }} stand for braces.
//
// Out of scope: whether to believe what a request says of itself.
package keys
