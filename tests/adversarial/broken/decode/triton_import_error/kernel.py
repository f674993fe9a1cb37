"""Wrong: imports what is not there."""

import no_such_module

kernel = no_such_module.kernel
