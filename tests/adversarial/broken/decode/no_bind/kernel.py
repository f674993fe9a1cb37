"""Wrong: defines `run`, not `bind`."""

import honest

run = honest.bind
