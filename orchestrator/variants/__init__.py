"""Administration of variants: changes of the table, and calls that name variants."""
