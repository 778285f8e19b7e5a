"""The command line: it parses words, calls the library and displays what comes back."""
