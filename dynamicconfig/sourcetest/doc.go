// SPDX-License-Identifier: Apache-2.0

// Package sourcetest has what every dynamicconfig.Source must pass, and every
// history.Store. Those of headgate pass it with real files, processes and servers:
//
//	func TestSource(t *testing.T) {
//		sourcetest.Source(t, func(t *testing.T) sourcetest.Place { … })
//	}
//
//	func TestMain(m *testing.M) {
//		sourcetest.MaybeWrite(open) // the processes that Crash kills
//		os.Exit(m.Run())
//	}
//
//	func TestStore(t *testing.T) { sourcetest.Store(t, open, newPlace) }
//	func TestRace(t *testing.T)  { sourcetest.Race(t, open, newPlace(t), 1000) }
//	func TestCrash(t *testing.T) { sourcetest.Crash(t, open, newPlace(t), 200) }
//
// Out of scope: how fast a source is.
package sourcetest
