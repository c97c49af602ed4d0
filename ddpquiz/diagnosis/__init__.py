"""Why a job hangs or failed: judged from events, live or of a record, and from logs, stacks and reports of RAS."""
