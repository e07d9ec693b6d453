// SPDX-License-Identifier: Apache-2.0

// Package quotaservicepb holds quotaservice's protocol, generated from
// quotaservice.proto: the service quotaservice.QuotaService and its messages.
//
//	client := quotaservicepb.NewQuotaServiceClient(conn)
//	answer, err := client.Allow(ctx, &quotaservicepb.AllowRequest{
//		Namespace:       "Pinky_TheBrain",
//		BucketName:      "UserService_getUser",
//		TokensRequested: 1,
//	})
//
// It is for package quotaservice, which answers, and for tests and tools. A
// program cannot link it beside another generated copy of this protocol: both
// would register the same names.
package quotaservicepb
