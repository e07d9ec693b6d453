// SPDX-License-Identifier: Apache-2.0

// Package plainpb is headgate's messages as plain protobuf, one message per
// key: what the columns of package rpc are compared with. It is generated from
// plain.proto.
package plainpb
