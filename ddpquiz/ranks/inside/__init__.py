"""Code that runs inside a rank: it runs the script, records every operation, and sends events to the launcher."""

# The modules that call torch in the place of the script: their frames are on the stack while it waits for other ranks,
# and errors that pass through them are torch's
BETWEEN = ("direct_calls", "kernels", "object_collectives", "process_groups", "recorder", "store_patch", "store_waits")
