// SPDX-License-Identifier: Apache-2.0

// Package quotaserviceconfig turns the config of quotaservice into a limits
// file:
//
//	data, err := os.ReadFile("quotaservice.yaml")
//	limits, err := quotaserviceconfig.Import("quotaservice.yaml", data)
//	snapshot, err := dynamicconfig.Parse("limits.yaml", limits)
//
// What is read, in YAML or JSON:
//
//	global_default_bucket: {size: 100}     # optional
//	namespaces:
//	  Pinky_TheBrain:
//	    max_dynamic_buckets: 10            # optional; 0: as many as there are names
//	    dynamic_bucket_template: {…}       # or default_bucket: {…}, or neither
//	    buckets:
//	      UserService_getUser:
//	        size: 100                      # tokens
//	        fill_rate: 50                  # tokens/s
//	        wait_timeout_millis: 1000      # below 0: no caller waits
//	        max_idle_millis: -1            # below 0: never
//	        max_debt_millis: 10000
//	        max_tokens_per_request: 50     # default: fill_rate, in JSON no bound; below 0: no bound
//	version: 7
//	user: someone
//	date: 1467331200
//
// Each field of a bucket that is missing, or 0, has the value above. A bucket
// becomes a rule for the key `namespace:name`; keys without a rule are denied. A colon
// in a namespace is `%3A` in keys, and names that are too long for a key end in their
// hash, as rpc/edge/quotaservice makes keys of them.
//
// A name finds the same bucket as in quotaservice. The global default bucket is for
// namespaces that are not in the config: an unknown name in a known namespace has no
// bucket. One name is an exception: the pattern of a default bucket, as \[: and a * for the
// namespace [, always means that bucket, as Rule.Shared says.
//
//	named bucket                  a rule for this key alone
//	dynamic_bucket_template       namespace:*, with max_keys
//	default_bucket                namespace:*, shared
//	global_default_bucket         *, shared
//
// What cannot be carried over is a comment in the result. What quotaservice
// takes and then breaks at (a negative size or max_debt_millis, a fill_rate above 10⁹, a
// default bucket beside a dynamic template) is an error, as is any field that it does
// not have.
//
// Out of scope: quotaservice's protocol, which rpc/edge/quotaservice speaks.
package quotaserviceconfig
