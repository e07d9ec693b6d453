// SPDX-License-Identifier: Apache-2.0

package quotaserviceconfig_test

import (
	"fmt"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/quotaserviceconfig"
)

func ExampleImport() {
	limits, err := quotaserviceconfig.Import("quotaservice.yaml", []byte(`
namespaces:
  TheBrain_userLogins:
    max_dynamic_buckets: 10000
    dynamic_bucket_template: {size: 5, fill_rate: 1}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	snapshot, err := dynamicconfig.Parse("limits.yaml", limits)
	if err != nil {
		fmt.Println(err)
		return
	}
	rule, ok := snapshot.Match("TheBrain_userLogins:pinky")
	fmt.Println(ok, rule.Limit, rule.Burst, rule.MaxCost, rule.MaxWait, rule.MaxKeys)
	_, ok = snapshot.Match("TheBrain:pinky")
	fmt.Println(ok)
	// Output:
	// true 1 5 1 1s 10000
	// false
}
