// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"testing"

	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/limiter/client"
)

// A Client whose collaborators are nil works with its defaults.
func TestAClientWorksWithoutWhatIsNil(t *testing.T) {
	for name, option := range map[string]client.Option{
		"option": nil, "logger": client.WithLogger(nil), "scope": client.WithScope(nil), "instrument": client.WithInstrument(nil), "limiter": client.WithLimiter(nil),
	} {
		c, err := client.New(client.Config{Addresses: []string{"127.0.0.1:1"}, Hosts: 1}, memory.New(parse(t, "limits: [{key: k, limit: 1/s, burst: 1, algorithm: even}]")), option)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if l := c.For("k"); !l.Allow() || l.Allow() {
			t.Errorf("%s: the limit is another one", name)
		}
		c.SetHosts(-1)
		if err := c.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
