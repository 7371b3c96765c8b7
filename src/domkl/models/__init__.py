"""The models that one can choose: their settings, which make their rows, and what they compute in engines."""
