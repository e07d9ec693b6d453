// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
)

// follow says why a link from a page leads nowhere. Links to other sites are
// not followed: a test that needs the network fails for others' reasons.
func follow(tree fs.FS, all []page, from page, target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	if u.Scheme != "" || u.Host != "" {
		return nil
	}
	to := from.path
	if u.Path != "" {
		if strings.HasPrefix(u.Path, "/") {
			return fmt.Errorf("begin it with the path from this page, not with a slash")
		}
		to = path.Join(path.Dir(from.path), u.Path)
		if _, err := fs.Stat(tree, to); err != nil {
			return fmt.Errorf("no such file: %s", to)
		}
	}
	if u.Fragment == "" || path.Ext(to) != ".md" {
		return nil
	}
	i := slices.IndexFunc(all, func(p page) bool { return p.path == to })
	if i < 0 || !slices.Contains(all[i].anchors, u.Fragment) {
		return fmt.Errorf("%s has no heading #%s", to, u.Fragment)
	}
	return nil
}
