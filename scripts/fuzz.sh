#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs each fuzz test whose name matches a pattern, one after the other,
# because go test takes one at a time: fuzz.sh [pattern [time]]. make check and
# make lint vet all packages.
set -eu
pattern=${1:-.}
time=${2:-10s}

found=$(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/' | sort)
chosen=$(echo "$found" | grep -E ":.*($pattern)" || true)
if [ -z "$chosen" ]; then
	echo "no fuzz test matches '$pattern'; there are:" >&2
	echo "$found" >&2
	exit 1
fi
for each in $chosen; do
	dir=$(dirname "${each%%:*}")
	name=${each##*:}
	echo "== fuzz $dir $name for $time"
	go test -vet=off -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$dir"
done
