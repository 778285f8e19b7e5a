"""Files that are replaced whole, lines that are whole or absent, tensors with a header."""
