// SPDX-License-Identifier: Apache-2.0

package redis

import "strings"

// slots is how many hash slots a Redis Cluster has.
const slots = 1 << 14

// nameOf is the name of the bucket of key, but for the prefix. Its hash tag is
// the key up to a closing brace. The tag must not be empty: otherwise the bucket
// and the IDs of its charges would be in different hash slots.
func nameOf(key string) string {
	if strings.HasPrefix(key, "}") {
		return "{-" + key + "}-" // no other name ends like that
	}
	return "{" + key + "}"
}

// slot is the hash slot of the bucket of key: CRC16 (XMODEM) of its hash tag.
func slot(key string) int {
	tag, _, _ := strings.Cut(nameOf(key)[1:], "}")
	crc := uint16(0)
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			crc = crc<<1 ^ crc>>15*0x1021
		}
	}
	return int(crc % slots)
}
