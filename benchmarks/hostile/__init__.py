"""A seeded campaign of broken files, odd tables, tampered folders and injected faults; see `campaign`."""
