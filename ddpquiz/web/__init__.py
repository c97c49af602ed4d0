"""A run as one page, and the curriculum as a site: plain files that a browser shows without a server or a network."""
