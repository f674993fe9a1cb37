"""Never imported where its module is missing."""

import no_such_module

bind = no_such_module.bind
