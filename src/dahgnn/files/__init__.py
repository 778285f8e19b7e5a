"""Write files that are replaced whole, lines that are whole or absent, and tensors with a header."""
