// SPDX-License-Identifier: Apache-2.0

// Package quotaservice lets programs that speak quotaservice's protocol, the
// gRPC service quotaservice.QuotaService, be served by headgate.
//
//	server := grpc.NewServer()
//	quotaservice.NewServer(engine.New(node.Group(), nil), quotaservice.ServerOptions{}).Register(server)
//	err := server.Serve(listener)
//
// A bucket is the key `namespace:bucket_name`, ruled as any other key. A colon in the
// namespace is `%3A` there, and names that are too long for a key end in their hash:
// package dynamicconfig/quotaserviceconfig makes rules for the same keys. What
// becomes of a request is the status of the answer, and never an error:
//
//	granted, soft               OK, with wait_millis
//	limited                     REJECTED_TIMEOUT
//	unmatched, slots in flight  REJECTED_NO_BUCKET
//	too many keys               REJECTED_TOO_MANY_BUCKETS
//	too costly                  REJECTED_TOO_MANY_TOKENS_REQUESTED
//	invalid, or a name missing  REJECTED_INVALID_REQUEST
//	failed                      REJECTED_SERVER_ERROR
//
// As quotaservice does, it takes tokens_requested of 0 or less for 1, lets an
// override only lower the bucket's longest wait, takes a negative override for
// 0, and rounds wait_millis down. A bucket whose rule has neither max_wait nor
// max_debt lets callers wait for a second. tokens_granted repeats tokens_requested as it is.
//
// Out of scope: the rules (package dynamicconfig/quotaserviceconfig makes them
// of quotaservice's config), the gRPC server and its health (the caller).
package quotaservice
