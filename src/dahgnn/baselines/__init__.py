"""Methods to compare with: graph networks and classical ones."""
