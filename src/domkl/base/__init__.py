"""What every other part may use: errors, checks, types, optional packages."""
