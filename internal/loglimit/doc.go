// SPDX-License-Identifier: Apache-2.0

// Package loglimit bounds the warnings and errors that a process logs, whatever
// its clients do.
//
//	log := slog.New(loglimit.New(slog.NewTextHandler(os.Stderr, nil)))
//	server.ErrorLog = slog.NewLogLogger(log.With("server", "http").Handler(), slog.LevelWarn)
//
// One cause is logged at most once a second. A cause is a message and its error,
// without addresses, numbers and what is quoted: a client that fails a thousand times a second, each
// time from another port, is one cause. Texts of more than 8 KiB are cut, and those of
// more than 256 bytes once a logger has logged 64 KiB, and 2 KiB more a second: however a client varies
// what it sends, it fills no disk. Lines at Info and Debug pass: clients do not cause them.
//
// Out of scope: metrics, which count what is not logged. A lock guards what was logged of each
// cause.
package loglimit
