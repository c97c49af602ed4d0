"""Code that runs inside a rank: it runs the script, records every operation, and sends events to the launcher."""
