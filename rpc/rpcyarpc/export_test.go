// SPDX-License-Identifier: Apache-2.0

package rpcyarpc

import "time"

// SetClock makes the client's chooser tell the age of connections by now.
func (c *Client) SetClock(now func() time.Time) {
	c.chooser.mu.Lock()
	defer c.chooser.mu.Unlock()
	c.chooser.now = now
}

// RedialAfter is redialAfter.
const RedialAfter = redialAfter

// FromWire is what a caller gets for an error of YARPC.
var FromWire = fromWire
