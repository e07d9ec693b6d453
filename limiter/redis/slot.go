// SPDX-License-Identifier: Apache-2.0

package redis

import "strings"

// slots is how many hash slots a Redis Cluster has.
const slots = 1 << 14

// slot is the hash slot of the bucket of key: CRC16 (XMODEM) of its hash tag.
// The tag of a key that begins with a closing brace would be empty, so that
// such a bucket is placed by its whole name; to take it for slot 0 does no
// harm.
func slot(key string) int {
	tag, _, _ := strings.Cut(key, "}")
	crc := uint16(0)
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return int(crc % slots)
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
		table[i] = crc
	}
	return table
}()
