"""Never imported where its module is missing."""

import no_such.inner

bind = no_such.inner.bind
