"""Why a job hangs or failed: from events, whether they come live, from records or from dumps."""
