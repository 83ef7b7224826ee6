"""The package's version, for whoever writes it down without importing what the package exports."""

__version__ = "0.1.0"
