"""Scale of columns, nearest neighbours, hypergraphs."""
