"""What a fit costs against the number of rows and of processes: a module a part, and the arithmetic."""
