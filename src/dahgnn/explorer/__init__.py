"""The labelling application: a page in the browser, and what it keeps on the disk."""
