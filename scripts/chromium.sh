#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# chromium.sh --install: installs Debian's Chromium if it is not there and root asks. Prints
# its path.
set -eu

if ! command -v chromium >/dev/null; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "Chromium is missing: install it, with Debian as root: apt-get install chromium" >&2
		exit 3
	fi
	# Tests of several packages may come here at once.
	exec 9>"${TMPDIR:-/tmp}/headgate-install-chromium.lock"
	flock 9
	if ! command -v chromium >/dev/null; then
		{
			apt-get update -qq
			apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core
		} </dev/null >&2 || exit 3
	fi
	exec 9>&-
fi
command -v chromium
