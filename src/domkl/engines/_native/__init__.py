"""The native engine's extension module, where it was built."""
