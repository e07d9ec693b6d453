// SPDX-License-Identifier: Apache-2.0

package change

import (
	"testing"
	"time"
)

func TestATimeOfDayIsTheNextOne(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	night := time.Date(2026, 10, 25, 0, 30, 0, 0, berlin) // clocks are set back at 3:00
	for text, want := range map[string]string{
		"06:00":                     "2026-10-25T05:00:00Z",
		"00:30":                     "2026-10-25T23:30:00Z",
		"00:31":                     "2026-10-24T22:31:00Z",
		"2026-10-25T06:00:00+01:00": "2026-10-25T05:00:00Z",
		"2026-10-25T06:00:00Z":      "2026-10-25T06:00:00Z",
		"24:00":                     "",
		"6 am":                      "",
	} {
		got, err := timeToCome(text, night)
		if want == "" {
			if err == nil {
				t.Errorf("%s is %v", text, got)
			}
			continue
		}
		if err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s is %v, %v, and is to be %s", text, got, err, want)
		}
	}
}
