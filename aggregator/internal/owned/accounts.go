// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/account/average"
	"github.com/headgate/headgate/aggregator/internal/account/claims"
	"github.com/headgate/headgate/aggregator/internal/account/pool"
	"github.com/headgate/headgate/algorithm"
)

// Accounts make the account of a key that is new here at now, by its name. Moved is
// when keys last moved between owners: others may hold what the account does not know of.
type Accounts map[string]func(now, moved time.Duration, c *account.Config) account.Account

// builtin are all accounts. Nothing else in this package or in aggregator knows a
// concrete one.
var builtin = Accounts{
	algorithm.AccountAverage: average.New,
	algorithm.AccountPool:    pool.New,
	algorithm.AccountClaims:  claims.New,
}
