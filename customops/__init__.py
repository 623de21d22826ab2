"""Custom operators that come from outside the package."""
