// SPDX-License-Identifier: Apache-2.0

// Package docstest tests the documents.
package docstest
